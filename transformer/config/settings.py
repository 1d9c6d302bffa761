"""Reader of config.yaml. The structs check single values. This module checks that names and numbers are consistent.

It does not import torch, because Snakemake and each of its jobs import this module.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, get_args, get_origin

import yaml
from msgspec import structs

from transformer.config.experiment import RECIPES
from transformer.config.scales import BLEU_VARIANTS, TABLE_2, RowFault, ScaleSettings
from transformer.config.schema import Config, Corpus, Keys, ParsingTask, TranslationTask, Treebank
from transformer.storage.files import InputError
from transformer.storage.reading import Misfit, Place, find_line, hint, read_yaml, structured

CONFIG = Path("config.yaml")  # in the project's folder
INSTALLED = Path(__file__).with_name(CONFIG.name)  # the same file, in the package
_DATA = ("label", "tasks", "parsing", "figures", "data_of_paper")  # keys of a scale that depend on its corpora


# ------------------------------------------------------------------ reading


def read(files: Iterable[str], entries: Iterable[str], config: Path = CONFIG) -> Config:
    """Return config.yaml with the changes of `files` and `key=value` entries, like Snakemake. Raises InputError."""
    if not config.exists():
        raise InputError(f"{CONFIG}: no such file in the working folder; run this command in the project's folder")
    files = [config, *files]
    return _checked(changes(files, entries), files, _parsed(entries))


def changes(files: Iterable[str | Path], entries: Iterable[str]) -> dict:
    """Return the merged content of files and `key=value` entries. Raises InputError."""
    config: dict = {}
    for file in files:
        content = read_yaml(file)
        if not isinstance(content, dict):
            raise InputError(f"{file}: expected a mapping, found {type(content).__name__}")
        config = _laid_over(config, content)
    return _laid_over(config, _parsed(entries))


def _parsed(entries: Iterable[str]) -> dict:
    given: dict = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        try:
            given = _laid_over(given, {key: yaml.safe_load(value)})
        except yaml.YAMLError:
            equals = ""
        if not equals:
            raise InputError(f"--config: expected key=value with a value in YAML, found {entry}")
    return given


def accept(content: dict, files: Iterable[str | Path] = (), given: Mapping[str, Any] = MappingProxyType({})) -> Config:
    """Return the configuration that Snakemake has merged. Exits with one line if it is wrong."""
    if content.get("partial") in ("true", "false"):  # Snakemake reads these values as text on the command line
        content = content | {"partial": content["partial"] == "true"}
    try:
        for file in files:
            read_yaml(file)  # refuses duplicate keys; Snakemake silently uses the last duplicate
        config = _checked(content, files, given, with_files=True)
        for folder in map(Path, (f"{config.results}/{config.scale}", "resources/corpora", "logs")):
            for place in (folder, *folder.parents):
                if place.is_file():
                    raise InputError(f"{place}: expected a folder or none, found a file")
    except InputError as error:
        sys.exit(str(error))
    return config


def completed(file: Path, changes: dict) -> dict:
    """Return a configuration file's content with the changes of a workflow that imports this one."""
    return _laid_over(read_yaml(file), changes)


def _laid_over(below: Any, above: Any) -> Any:
    """Return `above`. If both are mappings, merge them; values of `above` take precedence."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _laid_over(below.get(key), value) for key, value in above.items()}


def renamed(content: Any, kind: Any, lines: list[str], place: Place = ()) -> Any:
    """Return the content with current keys instead of former keys. Append a line for each former key to `lines`."""
    if isinstance(kind, type) and issubclass(kind, Keys) and isinstance(content, dict):
        types = {field.encode_name: field.type for field in structs.fields(kind)}
        for key in sorted(content.keys() & kind.FORMER.keys()):
            new = kind.FORMER[key]
            lines.append(f"{'.'.join((*place, key))} is now called {new}")
            content = _laid_over({each: value for each, value in content.items() if each != key}, {new: content[key]})
    elif isinstance(content, dict) and get_origin(kind) is dict:
        types = dict.fromkeys(content, get_args(kind)[1])
    else:  # Annotated or a union contains the section
        for part in get_args(kind):
            content = renamed(content, part, lines, place)
        return content
    return {key: renamed(value, types.get(key), lines, (*place, str(key))) for key, value in content.items()}


def _checked(content: dict, files: Iterable[str | Path], given: Mapping[str, Any], with_files: bool = False) -> Config:
    """Return the configuration merged with its recipe. Raises InputError naming file and line.

    with_files: refuse a corpus or weights that do not exist.
    """
    within: Place = ()
    content = renamed(content, Config, lines := [])
    for line in lines:
        print(line, file=sys.stderr)
    try:
        config = check(content)
        if recipe := config.recipes.get(config.recipe):
            within = ("recipes", config.recipe)
            config = check(renamed(_laid_over(content, recipe), Config, []))
        if with_files and not config.partial:
            _require_files(ScaleSettings(config))
    except (Misfit, RowFault) as fault:
        places = fault.places if isinstance(fault, RowFault) else [fault.place]
        places = [each for place in places for each in _with_likes(place, content)]
        where = _where([(*within, *place) for place in places] if within else places, files, given)
        problem = f"{'.'.join([*within, ''])}{fault}".replace(f"{CONFIG}: ", "")
        raise InputError(f"{where}: {problem}") from None
    return config


def _where(places: list[Place], files: Iterable[str | Path], given: Mapping[str, Any]) -> str:
    """Return file and line of the first key path that a file has, or of the longest part that a file has."""
    sources = [(str(file).removeprefix(f"{Path.cwd()}/"), Path(file).read_bytes()) for file in files]
    if given:
        sources.append(("--config", yaml.safe_dump(dict(given), default_flow_style=True, width=10**6)))
    found = [(*find_line(text, place), name, len(place)) for place in places for name, text in reversed(sources)]
    whole = next((entry for entry in found if entry[0] == entry[3]), None)
    depth, line, name, _ = whole or max(found, key=lambda entry: entry[0], default=(0, 0, "", 0))
    if not depth:
        return str(CONFIG)
    return name if name == "--config" else f"{name}, line {line}"


def _with_likes(place: Place, content: dict) -> list[Place]:
    """Return a place and, if it is in a scale with `like`, the corresponding places in the other scales."""
    places, scales = [place], content.get("scales")
    while place[:1] == ("scales",) and len(place) > 1 and isinstance(scales, dict):
        scale = scales.get(place[1])
        like = scale.get("like") if isinstance(scale, dict) else None
        place = ("scales", like, *place[2:])
        if not isinstance(like, str) or place in places:  # no further scale, or a cycle
            break
        places.append(place)
    return places


# ------------------------------------------------------------------ checks


def check(content: dict) -> Config:
    """Return a configuration. Raises Misfit or RowFault at the first fault in any scale."""
    config = structured(_with_scales(content), Config, CONFIG)
    _require_named(config.scales, config.scale, ("scale",), "scales")
    for recipe, changed in config.recipes.items():
        _require_named(RECIPES, recipe, ("recipes",), "recipes")
        for key in {"recipe", "recipes", "scale"} & changed.keys():
            _refuse(("recipes", recipe), f"expected keys that a recipe may change, found '{key}'")
    for experiment in (*TABLE_2, *BLEU_VARIANTS):
        if experiment not in config.experiments:
            _refuse(("experiments",), f"missing row '{experiment}', which a table needs")
    for kind, others in (("ablations", config.experiments), ("baselines", config.experiments | config.ablations)):
        for name in getattr(config, kind).keys() & others.keys():
            _refuse((kind,), f"expected a unique name, found '{name}', which another row has already")
    for name, corpus in config.corpora.items():
        for ending, source in corpus.sources().items():
            if source.download:
                _require_named(
                    config.downloads, source.download, ("corpora", name, *corpus.key_of(ending)), "downloads"
                )
    for name in config.scales:
        _check_scale(ScaleSettings(config, name))
    _check_runs(ScaleSettings(config, config.scale))
    return config


def _with_scales(content: dict) -> dict:
    """Return a configuration's content in which each scale with `like` also has the keys of the other scale."""
    scales = content.get("scales")
    if not isinstance(scales, dict):
        return content

    def whole(name: str, above: tuple[str, ...] = ()) -> Any:
        scale = scales[name]
        if not isinstance(scale, dict) or not isinstance(like := scale.get("like"), str):
            return scale
        if like not in scales or like in (name, *above):
            names = [str(other) for other in scales if other not in (name, *above)]
            raise Misfit(
                CONFIG, ("scales", name, "like"), f"expected another scale ({', '.join(names)}), found '{like}'"
            )
        other = whole(like, (name, *above))
        if not isinstance(other, dict):  # the check of the other scale refuses it
            return scale
        if "tasks" in scale:
            other = {key: value for key, value in other.items() if key not in _DATA}
        return _laid_over(other, scale)

    return content | {"scales": {name: whole(name) for name in scales}}


def _check_runs(scale: ScaleSettings) -> None:
    """Refuse rows of the chosen scale whose values contradict each other. Other scales may change these values."""
    layers = {}
    for run in scale.all_runs():  # ablations come last
        try:
            layers[run.experiment] = scale.experiment(run).model.N
        except RowFault as fault:
            raise RowFault(f"{CONFIG}: scales.{scale.name}: {fault}", fault.places) from None
        if run.experiment in scale.config.ablations and run.experiment.endswith("-2N"):
            found, twice = (layers[name] * scale.entry.depth for name in (run.experiment, "base"))
            if found != 2 * twice:
                problem = f"{run.experiment}: N: expected {2 * twice}, twice the N of base, found {found}"
                _refuse(("scales", scale.name), problem)


def _require_files(scale: ScaleSettings) -> None:
    """Refuse a missing file of the user's: where older results exist, Snakemake would pass over it."""
    reused = {f"{run}: initial_weights": scale.experiment(run).training.initial_weights for run in scale.all_runs()}
    reused |= {f"{name}: vocabulary_file": task.vocabulary_file for name, task in scale.entry.tasks.items()}
    made = {Path(scale.config.results, name) for name in scale.config.scales}  # rules make the files in these folders
    given = {key: path for key, path in reused.items() if path and not made & set(Path(path).parents)}
    for name, task in scale.tasks.items():
        for _, name_of_corpus, ending in task.files():
            corpus = scale.config.corpora[name_of_corpus]
            source = corpus.sources().get(ending)
            of_user = source is not None and source.path and not getattr(source, "sections", None)
            if of_user and not Path(source.path).exists():
                place = ("corpora", name_of_corpus, *corpus.key_of(ending), "path")
                _refuse(place, f"no such file: {source.path}")
        if task.parses and task.silver and task.silver.path:
            given[f"{name}: silver.path"] = task.silver.path
    for key, path in given.items():
        if not Path(path).exists():
            raise InputError(f"{CONFIG}: {key}: no such file: {path}")


def _check_scale(scale: ScaleSettings) -> None:
    """Refuse the faults of a scale."""
    entry, place = scale.entry, ("scales", scale.name)
    of_tasks = {(*place, "tasks", name): task for name, task in entry.tasks.items()}
    for where, each in {place: entry, **of_tasks}.items():
        for key in ("experiments", "seeds_of", "rows"):
            for experiment in getattr(each, key) or ():
                _require_named(scale.experiments, experiment, (*where, key), "experiments, baselines and ablations")
        if each.rows and "base" not in each.rows:
            _refuse((*where, "rows"), "expected a list with 'base', because other rows are compared with it")
    for name, task in entry.tasks.items():
        for other in scale.config.scales:  # the rules distinguish translation from parsing by the task's name
            if name in ScaleSettings(scale.config, other).parsing:
                problem = f"expected a name that no translation task has, found '{name}', a task of scale {scale.name}"
                _refuse(("scales", other, "parsing", "tasks"), problem)
        _check_corpora(scale.config, task, (*place, "tasks", name))
    for name, task in scale.parsing.items():
        where = (*place, "parsing", "tasks", name)
        if task.silver and task.silver.parser:
            makers = [other for other, each in scale.parsing.items() if not each.silver]
            _require_named(makers, task.silver.parser, (*where, "silver", "parser"), "the tasks without silver")
        _check_corpora(scale.config, task, where)


def _check_corpora(config: Config, task: TranslationTask | ParsingTask, where: Place) -> None:
    """Refuse corpora that are missing, lack a language or trees, or are in both training data and test data."""
    for key, name, ending in task.files():
        place = (*where, *key.split(".", 1))
        endings = _require_named(config.corpora, name, place, "corpora").endings()
        if ending not in endings:
            _refuse(place, f"corpus '{name}' has no '{ending}', only {', '.join(endings)}")
    learned = {name: _parts_of(config, config.corpora[name]) for name in task.learned_from()}
    if task.parses and task.silver and (path := task.silver.path):
        learned[path] = _parts_of(config, Corpus(treebank=Treebank(path=path)))
    for split, name in task.tested_on().items():
        tested = _parts_of(config, config.corpora[name])
        for other, parts in learned.items():
            both = [(tested[key], parts[key]) for key in tested.keys() & parts.keys()]
            if any(max(one.start, two.start) < min(one.stop, two.stop) for one, two in both):
                also = f", which shares sentences with '{other}'" if name != other else ""
                problem = f"expected a corpus outside the training data, found '{name}'{also}"
                _refuse((*where, *split.split(".", 1)), problem)


def _parts_of(config: Config, corpus: Corpus) -> dict[tuple, range]:
    """Return a corpus's sources: ranges of the grammar's sentences, ranges of sections or whole files."""
    if grammar := corpus.grammar:
        return {("grammar", grammar.seed): range(grammar.skip, grammar.skip + grammar.take)}
    parts = {}
    for source in corpus.sources().values():
        download = config.downloads.get(source.download)
        file = (download and (download.sha256 or download.md5)) or source.download or os.path.realpath(source.path)
        first, last = getattr(source, "sections", None) or (0, 0)
        parts[file, getattr(source, "split", None), getattr(source, "member", None)] = range(first, last + 1)
    return parts


def _require_named(names: Any, name: str, where: Place, kind: str) -> Any:
    """Return the entry of a name. Raises Misfit if the name is missing."""
    if name not in names:
        _refuse(where, f"expected one of {kind} ({', '.join(names)}), found '{name}'{hint(name, names)}")
    return names[name] if isinstance(names, dict) else name


def _refuse(where: Place, problem: str) -> NoReturn:
    raise Misfit(CONFIG, where, problem)
