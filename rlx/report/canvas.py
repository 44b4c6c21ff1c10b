"""A drawing of characters: lines in braille dots, two by four of them in each cell, signs on top."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

# Dot numbers of Unicode's braille patterns by row and column within a cell.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLANK = 0x2800
Piece = tuple[str, str]


class Canvas:
    """`columns` by `rows` cells; dots are counted from the top left. The last one drawn in a cell sets its ink."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._dots = [[0] * columns for _ in range(rows)]
        self._inks = [[""] * columns for _ in range(rows)]
        self._signs: dict[tuple[int, int], Piece] = {}

    def line(self, points: Sequence[tuple[float, float]], ink: str, every: int = 1) -> None:
        """A line through points in dots; with `every` above 1 only each so many-th dot, which looks dashed."""
        drawn = 0
        for (x, y), (to_x, to_y) in pairwise(points):
            length = max(1, round(max(abs(to_x - x), abs(to_y - y))))
            for index in range(length + 1):
                if drawn % (2 * every) < every or every == 1:
                    share = index / length
                    self._dot(round(x + share * (to_x - x)), round(y + share * (to_y - y)), ink)
                drawn += 1

    def sign(self, x: float, y: float, character: str, ink: str) -> None:
        """A character in the cell of a dot, above all lines."""
        column, row = min(self.columns - 1, max(0, round(x) // 2)), min(self.rows - 1, max(0, round(y) // 4))
        self._signs[row, column] = (character, ink)

    def row(self, row: int) -> list[Piece]:
        """The cells of a row as pieces of text of one ink each."""
        pieces: list[Piece] = []
        for column in range(self.columns):
            text, ink = self._cell(row, column)
            if pieces and pieces[-1][1] == ink:
                pieces[-1] = (pieces[-1][0] + text, ink)
            else:
                pieces.append((text, ink))
        return pieces

    def _cell(self, row: int, column: int) -> Piece:
        if (row, column) in self._signs:
            return self._signs[row, column]
        dots = self._dots[row][column]
        return (chr(_BLANK + dots), self._inks[row][column]) if dots else (" ", "")

    def _dot(self, x: int, y: int, ink: str) -> None:
        column, row = x // 2, y // 4
        if 0 <= column < self.columns and 0 <= row < self.rows:
            self._dots[row][column] |= _DOTS[y % 4][x % 2]
            self._inks[row][column] = ink
