"""config.yaml, read and checked. The structs check each value; this module, that names and numbers fit each other.

Needs no torch: Snakemake imports it at each start, and each of its jobs does.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from itertools import product
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

CONFIG = Path("config.yaml")  # of the project's folder
_DATA = ("label", "tasks", "parsing", "figures", "data_of_paper")  # keys of a scale that belong to its corpora


# ------------------------------------------------------------------ reading


def read(files: Iterable[str], entries: Iterable[str]) -> Config:
    """Return config.yaml under `files` and `key=value` entries, as by Snakemake's options. Raises InputError."""
    if not CONFIG.exists():
        raise InputError(f"{CONFIG}: no such file: expected in the working folder, which must be the project's")
    files, given = [CONFIG, *files], _parsed(entries)
    return _checked(_laid_over(_content(files), given), files, given)


def changes(files: Iterable[str], entries: Iterable[str]) -> dict:
    """Return the changes of config.yaml that files and `key=value` entries make. Raises InputError."""
    return _laid_over(_content(files), _parsed(entries))


def _content(files: Iterable[str | Path]) -> dict:
    config: dict = {}
    for file in files:
        content = read_yaml(file)
        if not isinstance(content, dict):
            raise InputError(f"{file}: expected a mapping, found {type(content).__name__}")
        config = _laid_over(config, content)
    return config


def _parsed(entries: Iterable[str]) -> dict:
    given: dict = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        try:
            given = _laid_over(given, {key: yaml.safe_load(value)})
        except yaml.YAMLError:
            equals = ""
        if not equals:
            raise InputError(f"--config: expected key=value, the value in YAML, found {entry}")
    return given


def accept(content: dict, files: Iterable[str | Path] = (), given: Mapping[str, Any] = MappingProxyType({})) -> Config:
    """Return the configuration that Snakemake has put together. Exits with one line if it is wrong."""
    if content.get("partial") in ("true", "false"):  # from the command line, where these are texts to Snakemake
        content = content | {"partial": content["partial"] == "true"}
    try:
        for file in files:
            read_yaml(file)  # Snakemake takes the last of equal keys
        config = _checked(content, files, given)
        for folder in map(Path, (f"{config.results}/{config.scale}", "resources/corpora", "logs")):
            for place in (folder, *folder.parents):
                if place.is_file():
                    raise InputError(f"{place}: expected a folder or none, found a file")
    except InputError as error:
        sys.exit(str(error))
    return config


def completed(file: Path, changes: dict) -> dict:
    """Return the content of a configuration file with another workflow's changes."""
    return _laid_over(read_yaml(file), changes)


def _laid_over(below: Any, above: Any) -> Any:
    """Return `above`, and of mappings what `below` says besides."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _laid_over(below.get(key), value) for key, value in above.items()}


def renamed(content: Any, kind: Any, place: Place = ()) -> tuple[Any, list[str]]:
    """Return content of a type with today's names in place of former keys, and a line about each of these."""
    lines: list[str] = []
    if isinstance(kind, type) and issubclass(kind, Keys) and isinstance(content, dict):
        types = {field.encode_name: field.type for field in structs.fields(kind)}
        for key in sorted(content.keys() & kind.FORMER.keys()):
            new = kind.FORMER[key]
            lines.append(f"{'.'.join((*place, key))} is called {new} now")
            content = _laid_over({each: value for each, value in content.items() if each != key}, {new: content[key]})
    elif isinstance(content, dict) and get_origin(kind) is dict:
        types = dict.fromkeys(content, get_args(kind)[1])
    else:  # Annotated or a union: the section is within
        for part in get_args(kind):
            content, found = renamed(content, part, place)
            lines += found
        return content, lines
    parts = {key: renamed(value, types.get(key), (*place, str(key))) for key, value in content.items()}
    return {key: part for key, (part, _) in parts.items()}, [
        *lines,
        *(line for _, found in parts.values() for line in found),
    ]


def _checked(content: dict, files: Iterable[str | Path], given: Mapping[str, Any]) -> Config:
    """Return the configuration with its recipe laid over it. Raises InputError naming file and line."""
    within: Place = ()
    content, lines = renamed(content, Config)
    for line in lines:
        print(line, file=sys.stderr)
    try:
        config = check(content)
        if recipe := config.recipes.get(config.recipe):
            within = ("recipes", config.recipe)
            config = check(renamed(_laid_over(content, recipe), Config)[0])
    except (Misfit, RowFault) as fault:
        places = fault.places if isinstance(fault, RowFault) else [fault.place]
        places = [each for place in places for each in _with_likes(place, content)]
        where = _where([(*within, *place) for place in places] if within else places, files, given)
        problem = f"{'.'.join([*within, ''])}{fault}".replace(f"{CONFIG}: ", "")
        raise InputError(f"{where}: {problem}") from None
    return config


def _where(places: list[Place], files: Iterable[str | Path], given: Mapping[str, Any]) -> str:
    """Return the file and line that say most of the first place that is there whole, or else of any."""
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
    """Return a place and, in a scale that takes keys from others, the same place there."""
    places, scales = [place], content.get("scales")
    while place[:1] == ("scales",) and len(place) > 1 and isinstance(scales, dict):
        scale = scales.get(place[1])
        like = scale.get("like") if isinstance(scale, dict) else None
        place = ("scales", like, *place[2:])
        if not isinstance(like, str) or place in places:  # the end, or a circle
            break
        places.append(place)
    return places


# ------------------------------------------------------------------ checks


def check(content: dict) -> Config:
    """Return a configuration. Raises Misfit or RowFault at the first fault, at whichever scale."""
    config = structured(_with_scales(content), Config, CONFIG)
    _require_named(config.scales, config.scale, ("scale",), "scales")
    for recipe, changed in config.recipes.items():
        _require_named(RECIPES, recipe, ("recipes",), "recipes")
        for key in {"recipe", "recipes", "scale"} & changed.keys():
            _refuse(("recipes", recipe), f"expected keys that a recipe may change, found '{key}'")
    for experiment in (*TABLE_2, *BLEU_VARIANTS):
        if experiment not in config.experiments:
            _refuse(("experiments",), f"expected '{experiment}', which a table compares, found none")
    for kind, others in (("ablations", config.experiments), ("baselines", config.experiments | config.ablations)):
        for name in getattr(config, kind).keys() & others.keys():
            _refuse((kind,), f"expected a name that no other row has, found '{name}'")
    for name, corpus in config.corpora.items():
        for key, source in corpus.sources().items():
            if source.download:
                _require_named(config.downloads, source.download, ("corpora", name, *key.split(".", 1)), "downloads")
    for name in config.scales:
        _check_scale(ScaleSettings(config, name))
    _check_runs(ScaleSettings(config, config.scale))
    return config


def _with_scales(content: dict) -> dict:
    """Return a configuration's content in which each scale with `like` has the other scale's keys, too."""
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
        if not isinstance(other, dict):  # refused in its place
            return scale
        if "tasks" in scale:
            other = {key: value for key, value in other.items() if key not in _DATA}
        return _laid_over(other, scale)

    return content | {"scales": {name: whole(name) for name in scales}}


def _check_runs(scale: ScaleSettings) -> None:
    """Refuse rows whose values contradict each other at the scale that is built; at another they may go together."""
    layers = {}
    for run in scale.all_runs():  # ablations come last
        try:
            layers[run.experiment] = scale.experiment(run).model.N
        except RowFault as fault:
            raise RowFault(f"{CONFIG}: scales.{scale.name}: {fault}", fault.places) from None
        if run.experiment in scale.config.ablations and run.experiment.endswith("-2N"):
            found, twice = (layers[name] * scale.entry.depth for name in (run.experiment, "base"))
            if found != 2 * twice:
                problem = f"{run.experiment}: N: expected {2 * twice}, twice base's, found {found}"
                _refuse(("scales", scale.name), problem)


def _check_scale(scale: ScaleSettings) -> None:
    """Refuse the faults of a scale."""
    entry, place = scale.entry, ("scales", scale.name)
    of_tasks = {(*place, "tasks", name): task for name, task in entry.tasks.items()}
    for (where, each), key in product({place: entry, **of_tasks}.items(), ("experiments", "seeds_of", "rows")):
        for experiment in getattr(each, key, None) or ():
            _require_named(scale.experiments, experiment, (*where, key), "experiments, baselines and ablations")
    if entry.rows and "base" not in entry.rows:
        _refuse((*place, "rows"), "expected base among them, with which the others are compared")
    for name, task in entry.tasks.items():
        for other in scale.config.scales:  # the rules tell translators from parsers by their names
            if name in ScaleSettings(scale.config, other).parsing:
                problem = f"'{name}' is a task of scale {scale.name} already"
                _refuse(("scales", other, "parsing", "tasks"), problem)
        _check_corpora(scale.config, task, (*place, "tasks", name))
    for name, task in scale.parsing.items():
        where = (*place, "parsing", "tasks", name)
        if task.silver and task.silver.parser:
            makers = [other for other, each in scale.parsing.items() if not each.silver]
            _require_named(makers, task.silver.parser, (*where, "silver", "parser"), "the tasks without silver")
        _check_corpora(scale.config, task, where)


def _check_corpora(config: Config, task: TranslationTask | ParsingTask, where: Place) -> None:
    """Refuse corpora that are not there, lack a language or trees, or are both learned from and tested on."""
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
                _refuse(
                    (*where, *split.split(".", 1)), f"expected a corpus that is not learned from, found '{name}'{also}"
                )


def _parts_of(config: Config, corpus: Corpus) -> dict[tuple, range]:
    """Return a corpus's sources, whatever its name: ranges of the grammar's sentences or of sections, whole files."""
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
    """Return the entry of a name. Raises Misfit where there is none."""
    if name not in names:
        _refuse(where, f"expected one of {kind} ({', '.join(names)}), found '{name}'{hint(name, names)}")
    return names[name] if isinstance(names, dict) else name


def _refuse(where: Place, problem: str) -> NoReturn:
    raise Misfit(CONFIG, where, problem)
