"""The specification of a plan node: what the planner, the flow, EXPLAIN and Spark ask of each kind of node.

A node holds everything that an operator needs to do its step, and its inputs. Nodes are frozen, picklable
and compared by value, so two readers of one view share one node. ``relation`` is the catalog name of the
relation whose own text the node comes from: error rows, accounts and ``--why-not`` use it.

Each kind of node is a class in this folder and answers every question of ``Node`` there, once. The passes
over plans (``plan``), the dataflow (``flow``), the runners and the commands hold algorithms and no knowledge
of single kinds. ``tests/unit/plan/test_node_specifications.py`` checks that no answer is missing.

What an answer must be, where it is not obvious, is in docs/extend/operator.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import Field, dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from rowtide.plan.nodes.lineage import SourceRows

if TYPE_CHECKING:
    from rowtide.expr.tree import Expr
    from rowtide.rows.rowop import TimedRow
    from rowtide.rows.types import RowType, Type

PartitionKey = tuple[tuple[int, ...], ...]
"""For each input the fields by which an operator can be split: rows that agree on them meet."""

Agreed = frozenset[int] | None
"""Fields such that rows that agree on them keep their order in a split; None: no fields are known."""


class OrderMattersError(Exception):
    """An operator's rows depend on the order of rows that a split may exchange."""


class Form(Enum):
    """The two forms of an operator; both give the same rows in the same order."""

    COMPILED = "compiled"
    BY_ROW = "row by row"


@dataclass(frozen=True, slots=True)
class StepScope:
    """How many steps of a node run: one for each partition of its source, or one over merged rows."""

    by_partition: bool = False
    merges: bool = False


SINGLE = StepScope()
"""One step, which reads merged rows."""
BY_PARTITION = StepScope(by_partition=True)
"""A step for each partition that the input has."""
MERGES = StepScope(merges=True)
"""One step, which reads the steps of all partitions of its inputs."""


@dataclass(frozen=True, slots=True)
class WhyFiltered:
    """Why rows were dropped: what is ``said`` of them, which others are ``released``, what to ``change``."""

    said: str
    released: str
    change: str


BY_CONDITION = WhyFiltered(
    "did not meet its conditions",
    "Rows that meet them are written.",
    "Look at its WHERE or HAVING; a comparison with NULL is not TRUE.",
)

_READS = frozenset({"left", "right", "input", "sources", "table", "stream", "row_type"})
"""Fields of nodes that say what is read, and of which types."""


class Node:
    """What every kind of node answers. Methods with a body here have an answer that fits most kinds."""

    __slots__ = ()

    if TYPE_CHECKING:
        # Fields of the subclasses; a class attribute here would become their default value.
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

        @property
        def relation(self) -> str:
            """The relation whose own text the node comes from."""

        @property
        def row_type(self) -> RowType:
            """The fields of its rows."""

    # ------------------------------------------------------------------------------------ structure

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes whose rows it reads, port by port."""
        raise NotImplementedError

    def reading(self, inputs: Sequence[Node]) -> Node:
        """Return this node with other inputs, as many as it has."""
        raise NotImplementedError

    @property
    def is_row_wise(self) -> bool:
        """Whether it looks at one row at a time, so that any split and order of rows gives the same."""
        return False

    @property
    def keeps_rowtime(self) -> bool:
        """Whether each of its rows is made of one row of its one input and has the rowtime of that row."""
        return False

    @property
    def keeps_rows(self) -> bool:
        """Whether each of its rows is a row of its one input, unchanged: it only drops rows."""
        return False

    # ---------------------------------------------------------------------------------- changelogs

    def is_changelog(self) -> bool:
        """Return whether a DELETE may come out that retracts an earlier row."""
        raise NotImplementedError

    def shows_opcodes(self) -> bool:
        """Return whether rows of a relation with this node are shown with an opcode, as those of tables."""
        return self.is_changelog()

    def only_inserts(self) -> bool:
        """Return whether it is certain that no DELETE comes out, as of streams."""
        raise NotImplementedError

    def key_fields(self) -> tuple[int, ...] | None:
        """Return the fields of a changelog that hold the primary key of its table; None: they are unknown."""
        return None

    def keys_merged_by(self, expressions: Sequence[Expr]) -> tuple[int, ...] | None:
        """Return which of ``expressions`` over its rows give the key of whichever side of a join has one."""
        return None

    # ----------------------------------------------------------------------------------------- time

    def is_ordered(self) -> bool:
        """Return whether its rows come out in the order of rowtime."""
        return all(each.is_ordered() for each in self.inputs)

    def holds_rowtime(self, field: int) -> bool:
        """Return whether a field always holds the row's ROWTIME or its group's period.

        ``replay --from --to`` compares rows by such a field.
        """
        raise NotImplementedError

    # ---------------------------------------------------------------------------------------- state

    def keeps(self) -> str | None:
        """Return what its operator keeps and what limits that, for EXPLAIN; None: it keeps no rows.

        Rows that only wait for a rowtime bound are not counted: the limits of the intake bound them.
        """
        raise NotImplementedError

    def is_limited(self) -> bool:
        """Return whether the rows that a changelog leaves in force are limited in number.

        Engine tables hold what they hold, and groups without a window are limited by their table. Groups
        that are closed or forgotten are never deleted: there is no end of those.
        """
        return False

    def unlimited_state(self) -> str | None:
        """Return what it keeps without a limit of its own, for ``check``; None: its state has a limit.

        The planner refuses such a node unless the pipeline declares a RETENTION.
        """
        return None

    # ------------------------------------------------------------------------------- how it is done

    def form(self) -> Form | None:
        """Return which form of its operator runs; None: the operator has one form."""
        return None

    def work(self) -> str | None:
        """Return how its work is done and which calls are done otherwise, for EXPLAIN; None: no operator."""
        return (self.form() or Form.COMPILED).value

    def detail(self) -> str:
        """Return what it does, in the words of EXPLAIN."""
        raise NotImplementedError

    # ----------------------------------------------------------------------------------- the dataflow

    def scope(self) -> StepScope:
        """Return how many steps of it run."""
        return SINGLE

    def origins(self, own: int, ports: Sequence[Sequence[int]], *, merged: bool) -> tuple[int, ...]:
        """Return the origins of its rows, in order.

        ``own`` is the number for rows that it makes itself, ``ports`` are the origins at its inputs,
        ``merged`` says that it reads merged rows and not one partition.
        """
        return tuple(dict.fromkeys(origin for each in ports for origin in each))

    def may_pass_again(self) -> bool:
        """Return whether resubmitted rows may pass it: it keeps nothing of the rows that passed before."""
        return self.is_row_wise

    def own_text(self) -> object:
        """Return what it computes for its relation whatever it reads; equal texts report a fault once."""
        return self

    def signature(self) -> tuple[object, ...]:
        """Return what a changed plan must have in common with this one to take over the operator's state.

        Everything of the node but what it reads; of its inputs only the types.
        """
        return (type(self), self.own_fields(), types_of(self.row_type), self.read_types())

    def own_fields(self) -> tuple[tuple[str, object], ...]:
        """Return the node's fields that do not say what it reads, with their names."""
        return tuple(
            (field.name, getattr(self, field.name))
            for field in fields(self)
            if field.compare and field.name not in _READS
        )

    def read_types(self) -> tuple[object, ...]:
        """Return the part of the signature that its inputs decide."""
        return tuple(types_of(each.row_type) for each in self.inputs)

    # ------------------------------------------------------------------------------------- parallel runs

    def partition_key(self) -> PartitionKey | None:
        """Return, for each input, the fields by which its operator can be split; None: it cannot be split.

        Row-wise nodes may be split any way.
        """
        return None

    def parts_of_own_rows(self) -> Agreed:
        """Return the fields of rows that it makes itself which say in which part of a split."""
        return None

    def looks_up(self, port: int) -> bool:
        """Return whether rows of a port are only looked up by their key, so that none goes on."""
        return False

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return which fields keep the order of its rows, when ``agreed`` do so of the rows at ``port``.

        Raises:
          OrderMattersError: its rows depend on an order that ``agreed`` does not keep.
        """
        raise NotImplementedError

    # --------------------------------------------------------------------------------------- lineage

    def passes_on(self, row: TimedRow, own: int) -> bool:
        """Return whether ``row`` is one of its input's rows, at the same place in consistent time.

        ``own`` is the origin of rows that it makes itself.
        """
        return self.is_row_wise

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield what to look for at its inputs to find the rows that ``row`` was made of."""
        raise NotImplementedError

    def why_filtered(self) -> WhyFiltered:
        """Return what ``--why-not`` says of the rows that its operator counts as filtered."""
        return BY_CONDITION

    def released_by(self, row: TimedRow, port: int, ports: int) -> tuple[tuple[int, int], ...] | None:
        """Return the bounds (port, ms) that ``row``, which came by ``port`` of ``ports``, waited for.

        None: the operator itself knows what it waits for.
        """
        return None

    @property
    def lineage_note(self) -> str | None:
        """What an explanation of its rows must add; None: nothing."""
        return None


def types_of(row_type: RowType) -> tuple[Type, ...]:
    """Return what state depends on: neither names nor whether a column can be NULL."""
    return tuple(column.type for column in row_type)


def require(agreed: Agreed, key: Sequence[int], *, unless: bool = False) -> None:
    """Check that rows which agree on ``key`` keep their order, or that nothing depends on it.

    Raises:
      OrderMattersError: they may not.
    """
    if not unless and not (agreed is not None and agreed <= frozenset(key)):
        raise OrderMattersError
