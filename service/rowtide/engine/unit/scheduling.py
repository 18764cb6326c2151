"""The two sets of rules by which a unit runs forked rowops."""

from __future__ import annotations

from enum import Enum


class Scheduling(Enum):
    """When and in which frame a forked rowop runs, and which frame a mark remembers.

    ``OWN_FRAMES`` are the rules of release 1.0 of the original: a forked rowop runs after the handler that
    forked it and before the labels chained to that one, in its own frame. ``SHARED_FRAMES`` are those of
    release 1.1: it runs after the called label and everything chained to it, in the frame of that call.
    """

    OWN_FRAMES = "1.0"
    """After the handler that forked it, before the labels chained to that one, in its own frame.

    A mark remembers the frame outside that of the label that sets it.
    """
    SHARED_FRAMES = "1.1"
    """After the called label and everything chained to it, in the frame of that call, in order of forking.

    Rowops that it forks wait in the same frame. A mark remembers the frame of the label that sets it, so a
    loop needs no extra label to begin at, and a label may fork itself.
    """


class Entry(Enum):
    """Why a label runs in an existing frame, other than through a chain."""

    CALLED = "called"
    FORKED = "forked"
