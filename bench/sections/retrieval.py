"""Whether the right tool is found, and whether it is known when there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .markdown import Report, Row, Rows, named, table


def retrieval(report: Report, plot: str) -> str:
    """Recall, nDCG and MRR of everybody on every set."""
    rows: Rows = report.get("retrieval") or ()
    parts = ["## Finding the right tool", plot] if plot else ["## Finding the right tool"]
    parts.append(
        "Every search engine gets the same tools and queries, and may return ten names. Brackets"
        " have the 95 % interval of a bootstrap over queries. The last column shows by how many"
        " points of recall@5 the default is ahead on the same queries, with the paired interval."
    )
    for name in dict.fromkeys(row["set"] for row in rows):
        mine = [row for row in rows if row["set"] == name]
        count = next((row["queries"] for row in mine if "queries" in row), 0)
        columns = ("", "recall@1", "recall@5", "recall@10", "nDCG@10", "MRR", "default ahead")
        lines = [_found(row) for row in mine]
        parts.append(f"### {name}\n\n{count:,} queries.\n\n{table(columns, lines)}")
    return "\n\n".join(parts)


def _found(row: Row) -> Sequence[str]:
    if "reason" in row:
        return (row["label"], f"failed: {row['reason']}", "", "", "", "", "")
    found = row["figures"]
    span = found["recall@5"]
    ahead = row.get("default_ahead", {}).get("recall@5")
    return (
        named(row["label"]),
        f"{found['recall@1']['mean']:.3f}",
        f"{span['mean']:.3f} [{span['low']:.3f}, {span['high']:.3f}]",
        f"{found['recall@10']['mean']:.3f}",
        f"{found['ndcg@10']['mean']:.3f}",
        f"{found['mrr']['mean']:.3f}",
        _points(ahead) if ahead else "",
    )


def _points(span: Mapping[str, float]) -> str:
    low, high = span["low"] * 100, span["high"] * 100
    return f"{span['mean'] * 100:+.1f} [{low:+.1f}, {high:+.1f}]"


def knowing(report: Report) -> str:
    """Whether confidence tells that nothing fits."""
    every: Rows = report.get("retrieval") or ()
    rows = [row for row in every if "without_relevant" in row]
    if not rows:
        return ""
    lines = [
        (
            f"{row['set']}, {row['label']}",
            f"{row['abstain']['auroc']:.3f}" if "abstain" in row else "–",
            f"{row['abstain']['false_at_90']:.3f}" if "abstain" in row else "–",
            f"{row['without_relevant']['auroc']:.3f}",
            f"{row['without_relevant']['false_at_90']:.3f}",
            f"{row['calibration_error']:.3f}",
        )
        for row in rows
    ]
    columns = ("", "AUROC", "refused", "AUROC, taken out", "refused, taken out", "error")
    return (
        "## Knowing when nothing fits\n\n"
        "How well confidence separates queries that some tool fits from queries that no tool fits"
        " (0.5 is guessing). The first columns use negatives, each among the tools offered with"
        " it. The *taken out* columns use the set's own queries without the right tools, but with"
        " similar ones. *Refused* is the share of good queries lost at the cut that catches 90 %"
        " of the bad ones. *Error* is the mean difference between confidence and how often one of"
        " the first five was right. No peer reports a figure of this kind.\n\n"
        + table(columns, lines)
    )
