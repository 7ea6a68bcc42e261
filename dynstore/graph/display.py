"""How a graph is shown: a line of text, a table in a notebook."""

from __future__ import annotations

from html import escape

from dynstore.graph.orientations import Orientations

__all__ = ["Display"]

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Display(Orientations):
    """The part of :class:`dynstore.DynamicGraph` that shows it."""

    store_name: str

    def __repr__(self) -> str:
        kind = ("directed" if self._directed else "undirected") + (" weighted" if self._weighted else "")
        return (
            f"{type(self).__name__}({kind}, {self.number_of_vertices()} vertices, {self.number_of_edges()} edges, "
            f"store={self.store_name!r}, device={self.device!r}, version={self.version})"
        )

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        rows = {
            "vertices": f"{self.number_of_vertices():,}",
            "edges": f"{self.number_of_edges():,}",
            "directed": "yes" if self._directed else "no",
            "weighted": "yes" if self._weighted else "no",
            "store": self.store_name,
            "device": self.device,
            "version": f"{self.version:,}",
            "memory": _show_bytes(self.memory_usage()["total"]),
        }
        cells = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
        return f"<table><caption>dynstore.{type(self).__name__}</caption><tbody>{cells}</tbody></table>"


def _show_bytes(size: int) -> str:
    """Return a size with a unit that leaves fewer than 1024 of it.

    >>> _show_bytes(1000), _show_bytes(3 << 19)
    ('1000 B', '1.5 MiB')
    """
    step = min(max(size.bit_length() - 1, 0) // 10, len(UNITS) - 1)
    return f"{size / 1024**step:.1f} {UNITS[step]}" if step else f"{size} B"
