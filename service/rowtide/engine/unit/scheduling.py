"""The two sets of rules by which a unit runs what was forked."""

from __future__ import annotations

from enum import Enum


class Scheduling(Enum):
    """When and in which frame a forked rowop runs, and what a mark remembers."""

    OWN_FRAMES = "1.0"
    """After the handler that forked it, before the labels chained to that one, in a frame of its own on top.

    A mark remembers the frame outside that of the label which sets it.
    """
    SHARED_FRAMES = "1.1"
    """After the called label and all that is chained to it, in the frame of that call, in order of forking.

    What it forks waits in the same frame. A mark remembers the frame of the label which sets it, so a
    loop needs no label to begin at, and a label may fork itself.
    """


class Entry(Enum):
    """How a label came to run in a frame that is there already, other than by a chain."""

    CALLED = "called"
    FORKED = "forked"
