"""What transfer_to_npu has redirected, as rows that print as a table."""

from dataclasses import dataclass


@dataclass
class Row:
    """One redirected name. `uses` counts the calls in which the redirection changed something."""

    name: str
    effect: str
    uses: int = 0


@dataclass(frozen=True)
class Report:
    rows: list[Row]
    excluded: list[str]

    @property
    def used(self) -> list[Row]:
        """The rows that changed something, most used first."""
        return sorted((row for row in self.rows if row.uses), key=lambda row: -row.uses)

    def __str__(self) -> str:
        lines = [f"{row.uses:>8}  {row.name}: {row.effect}" for row in self.used]
        head = f"{len(self.rows)} names redirected from cuda to npu, {len(lines)} of them used"
        tail = [f"excluded: {', '.join(self.excluded)}"] if self.excluded else []
        return "\n".join([head, *lines, *tail])
