"""One page on trained runs."""

from collections.abc import Sequence
from pathlib import Path

from amcl.files import expand_home
from amcl.report.blocks import Section
from amcl.report.page import Page, check_replaceable, require_map
from amcl.report.runs import ReportSettings, Run, read_runs
from amcl.report.sections.cost import cost
from amcl.report.sections.curation import curations
from amcl.report.sections.detection import detection
from amcl.report.sections.galleries import image_map, nearest, pairs
from amcl.report.sections.heads import heads
from amcl.report.sections.results import results
from amcl.report.sections.settings import settings as settings_section
from amcl.report.sections.similarity import similarity
from amcl.report.sections.temperatures import temperatures
from amcl.report.sections.training import training
from amcl.report.summary import summary
from amcl.results import Table
from amcl.results.formatting import percent


def report(
    runs: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    settings: ReportSettings | None = None,
) -> Path:
    """Write a page of charts and images on a run, or on several side by side.

    Args:
        runs: A run folder, or several.
        out: The file to write; the default is report.html in the run's folder, or for several runs
            in the working folder. A file that is no such page is never overwritten.
        settings: Images to show, the projection of the map, and curations to link.

    Returns:
        The path of the page.

    Raises:
        RunError: If a folder is no run, or `out` is a file that is no such page.

    Example:
        >>> settings = ReportSettings(images=200, map="pca")
        >>> report("runs/first", settings=settings)  # doctest: +SKIP
        PosixPath('runs/first/report.html')
    """
    paths = [runs] if isinstance(runs, str | Path) else list(runs)
    settings = ReportSettings() if settings is None else settings
    require_map(settings.map)
    if out is None:
        out = expand_home(paths[0]) / "report.html" if len(paths) == 1 else "report.html"
    check_replaceable(Path(out))
    return page_of(read_runs(paths, settings), settings, Path(out).parent).write(out)


def page_of(runs: Sequence[Run], settings: ReportSettings, folder: str | Path = ".") -> Page:
    """Return the page; sections that need the images are left out where no run has them.

    Args:
        runs: The runs.
        settings: Images to show, the projection of the map, and curations to link.
        folder: Folder of the page, which links are relative to.
    """
    single = len(runs) == 1
    sections = [] if single else [_glance(runs)]
    sections.append(training(runs))
    if sampled := [run for run in runs if run.sample is not None]:
        sections.append(similarity(sampled))
    sections.append(temperatures(runs))
    if sampled:
        sections += [heads(sampled), pairs(sampled), nearest(sampled)]
        sections.append(image_map(sampled, settings.map, settings.seed))
    sections.append(results(runs))
    if (detectors := detection(runs)) is not None:
        sections.append(detectors)
    if settings.curation:
        sections.append(curations(runs, settings.curation, Path(folder)))
    sections += [cost(runs), settings_section(runs)]
    return Page(
        title=" · ".join(run.name for run in runs),
        subtitle=runs[0].describe() if single else f"{len(runs)} runs side by side",
        facts=_facts(runs[0]) if single else (),
        summary=summary(runs),
        sections=sections,
        footer=_footer(runs),
    )


def _glance(runs: Sequence[Run]) -> Section:
    """Return a table of the key numbers of several runs."""
    facts = [dict(_facts(run)) for run in runs]
    names = dict.fromkeys(name for fact in facts for name in fact)
    rows = [
        (run.name, run.describe(), *(fact.get(name, "–") for name in names))
        for run, fact in zip(runs, facts, strict=True)
    ]
    return Section("At a glance", [Table(("run", "method", *names), rows, left=2)])


def _facts(run: Run) -> list[tuple[str, str]]:
    facts = [("epochs", f"{run.epochs} of {run.config.run.epochs}")]
    if epochs := run.of("epoch"):
        facts.append(("loss", f"{epochs[-1]['loss']:.4g}"))
    if probes := run.of("probe"):
        last = probes[-1]
        for name, label in (("knn_validation", "kNN, validation"), ("knn_test", "kNN, test")):
            if name in last:
                facts.append((label, percent(last[name])))
        if "effective_rank" in last:
            facts.append(("effective rank", f"{last['effective_rank']:.1f}"))
    for part, separation in run.separations.items():
        facts.append((f"AUROC, {part}", f"{separation.auroc:.4f}"))
    return facts


def _footer(runs: Sequence[Run]) -> str:
    samples = [run.sample for run in runs if run.sample is not None]
    sources = dict.fromkeys(f"{len(sample)} {sample.source}" for sample in samples)
    images = f" Pairs, heads, neighbors and map are of {'; '.join(sources)}." if sources else ""
    shown = dict.fromkeys(sample.shown for sample in samples if sample.shown)
    bands = f" Pictures show {'; '.join(shown)}." if shown else ""
    return f"Made from {', '.join(str(run.path) for run in runs)} by `amcl report`.{images}{bands}"
