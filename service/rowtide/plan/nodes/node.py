"""The specification of a plan node, for the planner, the flow, EXPLAIN and Spark.

A node holds everything that its operator needs, and its inputs. Nodes are frozen, picklable and compared
by value, so two readers of one view share one node. ``relation`` is the catalog name of the relation
whose own text the node comes from: error rows, accounts and ``--why-not`` use it.

Each kind of node is a class in this folder that implements every method of ``Node``. The passes over plans
(``plan``), the dataflow (``flow``), the runners and the commands contain algorithms and no knowledge of
single kinds. ``tests/unit/plan/test_node_specifications.py`` checks that no answer is missing.

docs/extend/operator.md explains results that are not obvious.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field, dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from rowtide.plan.nodes.lineage import SourceRows

if TYPE_CHECKING:
    from rowtide.expr.tree import Expr
    from rowtide.rows.rowop import TimedRow
    from rowtide.rows.types import RowType, Type
    from rowtide.rowtime.period import GridWindow

PartitionKey = tuple[tuple[int, ...], ...]
"""For each input the fields by which an operator can be split: rows with equal values meet."""

Agreed = frozenset[int] | None
"""Fields such that rows with equal values keep their order in a split; None: no such fields are known."""


class OrderMattersError(Exception):
    """An operator's rows depend on the order of rows that a split may exchange."""


class Form(Enum):
    """The two forms of an operator, which return the same rows in the same order."""

    COMPILED = "compiled"
    BY_ROW = "row by row"


@dataclass(frozen=True, slots=True)
class StepScope:
    """The number of steps of a node: one for each partition of its source, or one over merged rows."""

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
    """Why rows were dropped: the reason ``said``, which others are ``released``, what to ``change``."""

    said: str
    released: str
    change: str


BY_CONDITION = WhyFiltered(
    "did not meet its conditions",
    "Rows that meet them are written.",
    "Look at its WHERE or HAVING; a comparison with NULL is not TRUE.",
)

_READS = frozenset({"left", "right", "input", "sources", "table", "stream", "row_type"})
"""Fields of nodes with their inputs and the types of these."""


class Node:
    """The interface of every kind of node. Methods with a body here are right for most kinds."""

    __slots__ = ("_hash",)
    _hash: int
    """Is no field: not compared, and not pickled, as another process has another one."""

    def __init_subclass__(cls) -> None:
        """Let each node compute its hash once: that of a node goes through all nodes below it."""
        super().__init_subclass__()
        # ``dataclass`` makes a class again to add its slots, with the hash that it has generated.
        if (computed := cls.__dict__.get("__hash__")) is not None:
            cls.__hash__ = _kept(computed)  # type: ignore[assignment]  # of this class, once

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
        """True if it reads one row at a time, so that any split and order of rows has the same result."""
        return False

    @property
    def keeps_rowtime(self) -> bool:
        """Whether each of its rows is made of one row of its one input and has the rowtime of that row."""
        return False

    @property
    def keeps_rows(self) -> bool:
        """Whether each of its rows is a row of its one input, unchanged: it only drops rows."""
        return False

    @property
    def multiplies(self) -> bool:
        """Whether a row-wise node may make several rows of one, all at the place of that row."""
        return False

    def unchanged(self, fields: Sequence[int]) -> tuple[int, ...] | None:
        """Return the fields of its input that a row-wise node passes on as ``fields``; None: some are computed."""
        return tuple(fields)

    # ---------------------------------------------------------------------------------- changelogs

    def is_changelog(self) -> bool:
        """Return whether a DELETE may come out that retracts an earlier row."""
        raise NotImplementedError

    def shows_opcodes(self) -> bool:
        """Return whether rows of a relation with this node are shown with an opcode, as those of tables."""
        return self.is_changelog()

    def only_inserts(self) -> bool:
        """Return whether certainly no DELETE comes out, as for streams."""
        raise NotImplementedError

    def key_fields(self) -> tuple[int, ...] | None:
        """Return the fields of a changelog that hold the primary key of its table; None: they are unknown."""
        return None

    def keys_merged_by(self, expressions: Sequence[Expr]) -> tuple[int, ...] | None:
        """Return which of ``expressions`` over its rows are the key of the side of a join that has a row."""
        return None

    def follows_contents(self) -> bool:
        """Return whether the contents of its changelog depend on those of its inputs alone, whatever came before.

        Of rows that are equal in an order, the first to come may count.
        """
        return False

    # ----------------------------------------------------------------------------------------- time

    def is_ordered(self) -> bool:
        """Return whether its rows come out in the order of rowtime."""
        return all(each.is_ordered() for each in self.inputs)

    def holds_rowtime(self, field: int) -> bool:
        """Return whether a field always holds the row's ROWTIME or its group's period.

        ``replay --from --to`` compares rows by such a field.
        """
        raise NotImplementedError

    def ended_window(self) -> GridWindow | None:
        """Return the window whose end is the ROWTIME of each of its rows; None: ROWTIME is another time."""
        return self.inputs[0].ended_window() if self.keeps_rowtime else None

    def windows_of_input(self) -> tuple[GridWindow, ...]:
        """Return the windows to which its operator assigns the rows of its input by their ROWTIME."""
        return ()

    def closing(self, rowtime: int) -> tuple[int, int] | None:
        """Return the least bound (ms) of its input at which the first row that is made of one with ``rowtime`` leaves.

        And the ROWTIME of that row. None: its rows do not wait for the end of a window.
        """
        del rowtime
        return None

    # ---------------------------------------------------------------------------------------- state

    def keeps(self) -> str | None:
        """Return the state of its operator and the limit of the state, for EXPLAIN; None: it keeps no rows.

        Rows that only wait for a rowtime bound are not counted: the limits of the intake bound them.
        """
        raise NotImplementedError

    def is_limited(self) -> bool:
        """Return whether the number of a changelog's valid rows is limited.

        Engine tables are limited by definition, and groups without a window are limited by their table.
        Groups that are closed or dropped are never deleted, so their number has no limit.
        """
        return False

    def unlimited_state(self) -> str | None:
        """Return the state that it keeps without a limit, for ``check``; None: its state has a limit.

        The planner refuses such a node unless the pipeline declares a RETENTION.
        """
        return None

    # ------------------------------------------------------------------------------- how it is done

    def form(self) -> Form | None:
        """Return the form of its operator that runs; None: the operator has one form."""
        return None

    def work(self) -> str | None:
        """Return the form of its operator and the calls with another form, for EXPLAIN; None: no operator."""
        return (self.form() or Form.COMPILED).value

    def detail(self) -> str:
        """Return its description for EXPLAIN."""
        raise NotImplementedError

    # ----------------------------------------------------------------------------------- the dataflow

    def scope(self) -> StepScope:
        """Return the number of its steps."""
        return SINGLE

    def origins(self, own: int, ports: Sequence[Sequence[int]], *, merged: bool) -> tuple[int, ...]:
        """Return the origins of its rows, in order.

        ``own`` is the number for rows that it makes itself, ``ports`` are the origins at its inputs,
        ``merged`` says that it reads merged rows and not one partition.
        """
        return tuple(dict.fromkeys(origin for each in ports for origin in each))

    def may_pass_again(self) -> bool:
        """Return whether resubmitted rows may pass it, because it keeps nothing of rows that have passed."""
        return self.is_row_wise

    def computed(self) -> tuple[Expr, ...]:
        """Return the expressions that its operator computes for each row of its input."""
        return ()

    def own_text(self) -> object:
        """Return its computation without its inputs. Nodes with equal results report a fault once."""
        return self

    def signature(self) -> tuple[object, ...]:
        """Return what a changed plan must have in common with this one to take over the operator's state.

        Everything of the node except its inputs, of which only the types count.
        """
        return (type(self), self.own_fields(), types_of(self.row_type), self.read_types())

    def own_fields(self) -> tuple[tuple[str, object], ...]:
        """Return the node's fields, except its inputs, with their names."""
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

    def parts_hold_back(self) -> bool:
        """Return whether its operator in a part holds rows back that it would let go if it knew all keys."""
        return False

    def parts_of_own_rows(self) -> Agreed:
        """Return the fields of its rows that determine the part of a split."""
        return None

    def looks_up(self, port: int) -> bool:
        """Return whether rows of a port are only looked up by their key and never passed on."""
        return False

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the fields that keep the order of its rows if ``agreed`` do so for the rows at ``port``.

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
        """Yield searches at its inputs for the rows that ``row`` was made of."""
        raise NotImplementedError

    def why_filtered(self) -> WhyFiltered:
        """Return what ``--why-not`` says of the rows that its operator counts as filtered."""
        return BY_CONDITION

    def released_by(self, row: TimedRow, port: int, ports: int) -> tuple[tuple[int, int], ...] | None:
        """Return the bounds (port, ms) that ``row``, which came by ``port`` of ``ports``, waited for.

        None: the operator knows what it waits for.
        """
        return None

    @property
    def lineage_note(self) -> str | None:
        """A note for the explanation of its rows, or None."""
        return None


def _kept(computed: Callable[[Node], int]) -> Callable[[Node], int]:
    """Return a hash that is computed once for each node."""

    def kept(node: Node) -> int:
        try:
            return node._hash
        except AttributeError:
            found = computed(node)
            object.__setattr__(node, "_hash", found)
            return found

    return kept


def types_of(row_type: RowType) -> tuple[Type, ...]:
    """Return the parts of types that state depends on: not the names or NOT NULL of columns."""
    return tuple(column.type for column in row_type)


def require(agreed: Agreed, key: Sequence[int], *, unless: bool = False) -> None:
    """Check that rows with equal ``key`` keep their order, or that nothing depends on it.

    Raises:
      OrderMattersError: they may not keep it.
    """
    if not unless and not (agreed is not None and agreed <= frozenset(key)):
        raise OrderMattersError
