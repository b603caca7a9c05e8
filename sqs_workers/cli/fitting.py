"""Tables that fit a terminal: a number is never cut, because what is left of it looks like another number."""

from __future__ import annotations

from collections.abc import Sequence

from sqs_workers.cli.needs import Table, Text

__all__ = ["Fitted"]

_LEAST = 8
_GAP = 2


class Fitted:
    """Cells that are made to fit.

    :param flexible: columns of text, which are cut if there is no room.
    :param first_to_go: columns that are left out if that is not enough, in this order. Those in which no row has
        a value go before any text is cut.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        flexible: Sequence[str],
        first_to_go: Sequence[str],
    ) -> None:
        self._flexible = flexible
        self._first_to_go = first_to_go
        self._cells = {name: [row[index] for row in rows] for index, name in enumerate(columns)}

    def table(self, title: str, width: int, *, red: Sequence[bool]) -> Table:
        """The table for a terminal of ``width`` columns.

        :param red: which rows stand out.
        """
        widths = self._widths(width)
        shown = Table(box=None, pad_edge=False, title=title, title_justify="left")
        for name, room in widths.items():
            justify = "left" if name in self._flexible else "right"
            shown.add_column(name, justify=justify, no_wrap=True, min_width=room, header_style="bold")  # type: ignore[arg-type]
        for index, stands_out in enumerate(red):
            # Text, because a name may look like markup.
            cells = [Text(_cut(self._cells[name][index], room)) for name, room in widths.items()]
            shown.add_row(*cells, style="red" if stands_out else None)
        return shown

    def _widths(self, width: int) -> dict[str, int]:
        widths = {name: max(map(len, [name, *cells])) for name, cells in self._cells.items()}
        unknown = [name for name in self._first_to_go if set(self._cells[name]) <= {"-"}]
        for name in unknown:
            if _total(widths) > width:
                del widths[name]
        for name in self._first_to_go:
            least = {
                key: min(_LEAST, room) if key in self._flexible else room for key, room in widths.items()
            }
            if _total(least) > width:
                widths.pop(name, None)
        while _total(widths) > width:
            widest = max((name for name in widths if name in self._flexible), key=widths.__getitem__)
            if widths[widest] <= _LEAST:
                break
            widths[widest] -= 1
        return widths


def _total(widths: dict[str, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "\N{HORIZONTAL ELLIPSIS}"
