"""The paper's tables and figures: their runs, and what they leave behind."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from amcl.data import missing_sets
from amcl.data.named import NAMED
from amcl.experiments.cases import AMCL, Part
from amcl.experiments.conduct import check_labels, conduct
from amcl.experiments.entries import Entry
from amcl.experiments.paper import ENTRIES
from amcl.experiments.pool import Pool
from amcl.experiments.product import Product, Topic, check_free, topic_of
from amcl.experiments.scales import SCALES, Scale, ScaleName
from amcl.experiments.tables import csv_text
from amcl.settings import choose, whole_number
from amcl.sweep import Point
from amcl.sweep.workers import Tell
from amcl.training import HardwareSettings, RunError, RunFolder
from amcl.training.config import unknown


def entry(name: str) -> Entry:
    """The entry of this name; an error if there is none, or it cannot be had yet."""
    if name not in ENTRIES:
        raise ValueError(unknown(f"{name!r} is asked for", name, ENTRIES))
    if ENTRIES[name].unavailable:
        raise RunError(f"{name} cannot be reproduced: {ENTRIES[name].unavailable}.")
    return ENTRIES[name]


def sets_of(asked: Entry, scale: Scale, data: Sequence[str] = ()) -> tuple[str, ...]:
    """The data sets that an entry is run on."""
    return tuple(data) or scale.sets(*asked.sets)


def runs_of(
    asked: Entry, scale: Scale, data: Sequence[str] = (), seeds: int | None = None
) -> list[Point]:
    """The runs behind an entry."""
    if asked.make is None:
        return []
    parts = asked.make(scale, sets_of(asked, scale, data))
    count = scale.seeds if seeds is None else whole_number("seeds", seeds)
    return _pool(scale, Path()).points(parts, range(count))


def reproduce(
    name: str,
    *,
    scale: ScaleName = "cpu",
    out: str | Path | None = None,
    data: Sequence[str] = (),
    data_root: str | None = None,
    seeds: int | None = None,
    jobs: int = 1,
    hardware: HardwareSettings | None = None,
    again: bool = False,
    tell: Tell = print,
) -> Path:
    """Run what is behind a table or figure of the paper, and write it as page, Markdown, CSV, PNG.

    Runs go to the folder `out` (`reproduce/SCALE`), where all entries of a scale share them: what
    has been run is not run again, and the same call goes on after it was stopped. `data`: other
    sets or folders than the entry has at this scale. Returns the page.
    """
    asked = entry(name)
    choose("scale", scale, tuple(SCALES))
    size = SCALES[scale]
    folder = Path(out) if out is not None else Path("reproduce") / scale
    command = _command(name, scale, out, data, data_root, seeds, jobs)
    if asked.make is None:
        return _without_runs(asked, size, command).write(folder / name)
    sets = sets_of(asked, size, data)
    if told := missing_sets(sets, data_root):
        raise RunError(
            f"{name} at --scale {scale} needs data that are not there. {' '.join(told)} "
            "Or choose others with --data."
        )
    count = size.seeds if seeds is None else whole_number("seeds", seeds)
    parts = _on_machine(asked.make(size, sets), data_root, hardware)
    _require_labels(parts, sets)
    check_free(folder / name)
    pool = _pool(size, folder / "runs", data_root, hardware)
    filled, judged = conduct(
        pool, parts, range(count), jobs=jobs, again=again, go_on=command, tell=tell
    )
    product = Product(
        title=f"{name}: {asked.title}",
        subtitle=f"At scale {scale}: {size.told}.",
        topics=[*map(topic_of, filled), *(_pairs(parts, pool) if asked.histograms else ())],
        csv=csv_text(filled),
        command=command,
        facts=_facts(parts, pool, sets, count) + ([("judged on", judged)] if judged else []),
        config=parts[0].cases[0].config.to_toml(),
    )
    return product.write(folder / name)


def _require_labels(parts: Sequence[Part], sets: Sequence[str]) -> None:
    """An error for folders without classes where accuracies are asked for; named sets have them."""
    for name in sets:
        cases = [case for part in parts for case in part.cases if case.config.data.data == name]
        if cases and name not in NAMED and name != "builtin":
            check_labels(cases[0].config, parts, "auto")


def _pool(
    scale: Scale,
    path: Path,
    data_root: str | None = None,
    hardware: HardwareSettings | None = None,
) -> Pool:
    return Pool(
        path=path,
        data_root=data_root,
        hardware=hardware or HardwareSettings(),
        base_of=lambda config: scale.config(config.data.data, config.method.name),
        settings=scale.protocols,
        pairs=scale.pairs,
    )


def _without_runs(asked: Entry, scale: Scale, command: str) -> Product:
    from amcl.experiments.costs import cost_topics, design_topics

    data = "builtin" if scale.few else "imagenet"
    topics, csv = cost_topics(data) if asked.shows == "cost" else design_topics()
    of = f"the recipes for {data}" if asked.shows == "cost" else "the recipe for CIFAR-10"
    return Product(
        title=f"{asked.name}: {asked.title}",
        subtitle=f"Counted on the networks of {of}: nothing is trained.",
        topics=topics,
        csv=csv,
        command=command,
    )


def _pairs(parts: Sequence[Part], pool: Pool) -> list[Topic]:
    """Histograms and pairs of the first seed of every run."""
    from amcl.experiments.pictures import topics_of_pairs

    runs: dict[str, Path] = {}
    for case in parts[0].cases:
        said = [value for name, value in case.labels.items() if name not in ("measure", "place")]
        run = pool.run(case.config, 0)
        if RunFolder(run).backbone.is_file():  # else it failed, and the table says so
            runs[", ".join(said)] = run
    in_rows = sorted(runs, key=lambda name: name.endswith(AMCL))  # as the paper has them
    samples = {name: pool.sample(runs[name]) for name in in_rows}
    return topics_of_pairs(samples, gallery=[n for n in samples if n.endswith(AMCL)][-1:])


def _on_machine(
    parts: Sequence[Part], data_root: str | None, hardware: HardwareSettings | None
) -> list[Part]:
    """The same parts, run as this machine allows."""
    return [
        replace(
            part,
            cases=tuple(
                replace(
                    case,
                    config=replace(
                        case.config,
                        data=replace(case.config.data, data_root=data_root),
                        hardware=hardware or case.config.hardware,
                    ),
                )
                for case in part.cases
            ),
        )
        for part in parts
    ]


def _facts(
    parts: Sequence[Part], pool: Pool, sets: Sequence[str], seeds: int
) -> list[tuple[str, str]]:
    config = parts[0].cases[0].config
    return [
        ("images", ", ".join(sets)),
        ("backbone", f"{config.backbone.backbone} ×{config.backbone.width:g}"),
        ("epochs", str(config.run.epochs)),
        ("seeds", str(seeds)),
        ("runs", str(len(pool.points(parts, range(seeds))))),
    ]


def _command(
    name: str,
    scale: str,
    out: str | Path | None,
    data: Sequence[str],
    data_root: str | None,
    seeds: int | None,
    jobs: int,
) -> str:
    words = ["amcl", "reproduce", name, "--scale", scale]
    words += ["--data", *data] if data else []
    words += ["--data-root", data_root] if data_root is not None else []
    words += ["--jobs", str(jobs)] if jobs > 1 else []
    words += ["--seeds", str(seeds)] if seeds is not None else []
    words += ["--out", str(out)] if out is not None else []
    return shlex.join(words)
