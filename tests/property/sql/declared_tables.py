"""A table function in Python for properties and the operator contract."""

from __future__ import annotations


class Pairs:
    """Each text with the one before it, as often as asked for, in a dictionary that is changed in place."""

    def create(self) -> dict[str, str]:
        return {}

    def add(
        self, state: dict[str, str], rowtime: int, text: str | None, copies: int
    ) -> tuple[dict[str, str], list[tuple[int, str | None, str | None]]]:
        before = state.get("text")
        state["text"] = text or ""
        if text == "ab":
            raise ValueError("this text is not for sale")
        return state, [(rowtime, before, text)] * copies
