# §5.1: cleaning, tokenisation, the shared byte-pair vocabulary and encoding.


rule tokenize:
    input:
        source=ask.side("source"),
        target=ask.side("target"),
        vocabulary=ask.vocabulary_of_search,
    output:
        DATA.texts("{split}"),
    log:
        "logs/tokenize/{scale}/{task}/{split}.log",
    wildcard_constraints:
        task=any_of(TRANSLATION_TASKS),
    priority: FIRST
    conda:
        "../../environment.yml"
    threads: prepare_threads
    resources:
        mem_mb=memory(1000, each_thread=300),
    params:
        data=ask.data,
        languages=ask.languages,
        preprocessing=ask.preprocessing,
        longest=untracked(ask.longest),
    script:
        "../scripts/tokenize_text.py"


rule linearize:
    input:
        trees=ask.side("trees"),
        silver=ask.silver,
    output:
        DATA.texts("{split}"),
    log:
        "logs/linearize/{scale}/{task}/{split}.log",
    wildcard_constraints:
        task=any_of(PARSING_TASKS),
    priority: FIRST
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500, large=8000, growth=2),
    params:
        data=ask.data,
        mix=ask.mix_options,
    script:
        "../scripts/linearize.py"


rule vocabulary:
    input:
        DATA.texts("train")[:2],
        reused=ask.vocabulary_file,
    output:
        DATA.vocabulary,
    log:
        "logs/vocabulary/{scale}/{task}.log",
    priority: FIRST
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500, large=10000, growth=2),
    params:
        data=ask.data,
        options=ask.vocabulary_options,
        languages=ask.languages,
        preprocessing=ask.preprocessing,
    script:
        "../scripts/vocabulary.py"


rule encode:
    input:
        DATA.texts("train"),
        DATA.texts("dev"),
        DATA.vocabulary,
    output:
        *DATA.arrays("train"),
        *DATA.arrays("dev"),
        DATA.manifest,
    log:
        "logs/encode/{scale}/{task}.log",
    priority: FIRST
    conda:
        "../../environment.yml"
    threads: prepare_threads
    resources:
        mem_mb=memory(1000, each_thread=300),
    params:
        data=ask.data,
        longest=untracked(ask.longest),
    script:
        "../scripts/encode.py"


rule unseen:
    input:
        DATA.texts("train")[:2],
        DATA.texts("test")[:2],
        reference=ask.side("target", "test"),
    output:
        DATA.unseen,
    log:
        "logs/unseen/{scale}/{task}.log",
    wildcard_constraints:
        task=any_of(TRANSLATION_TASKS),
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1000),
    params:
        data=ask.data,
    script:
        "../scripts/unseen.py"
