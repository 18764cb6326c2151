"""The operator of each plan node.

An operator is registered by one line in ``OPERATORS``; the contract suite
(tests/contract/operators) then runs it, and fails if it has no cases for it.
The operators' modules are imported when the first operator is made, so that
planning costs nothing of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from rowtide.operators.contract import Operator, OperatorSite, State
from rowtide.plan import nodes
from rowtide.plan.nodes import Form, Node
from rowtide.plan.nodes.changes.combined_copies import CombinedCopies
from rowtide.plan.nodes.changes.window_changes import WindowChanges
from rowtide.plan.nodes.json_table import JsonTable
from rowtide.plan.nodes.sample import HashSample
from rowtide.plan.nodes.table_function import TableFunction


class OperatorType(Protocol):
    """An operator class."""

    def __call__(self, node: Node, site: OperatorSite) -> Operator:
        """Make the operator of ``node``."""

    def merge(self, states: Sequence[State]) -> State:
        """Merge the states of operators that each had a part of the keys."""

    def split(self, node: Node, state: State, parts: int) -> Sequence[State]:
        """Split the state of an operator of ``node`` as ``storage.key_parts`` splits rows; see ``split``."""


OPERATORS: dict[type, str] = {
    nodes.Filter: "row_wise.filter:FilterOperator",
    nodes.FilterInserts: "row_wise.filter:FilterOperator",
    nodes.Project: "row_wise.project:ProjectOperator",
    nodes.ProjectKeys: "row_wise.project:ProjectOperator",
    nodes.Promote: "row_wise.promote:PromoteOperator",
    HashSample: "row_wise.sample:SampleOperator",
    JsonTable: "row_wise.json_table:JsonTableOperator",
    nodes.Sort: "sort.sort:SortOperator",
    nodes.Merge: "merge.merge:MergeOperator",
    nodes.GroupByPeriod: "group.group_by_period:GroupByPeriodOperator",
    nodes.GroupByHop: "group.group_by_hop:GroupByHopOperator",
    nodes.GroupByCumulate: "group.group_by_cumulate:GroupByCumulateOperator",
    nodes.GroupBySession: "group.group_by_session:GroupBySessionOperator",
    nodes.GroupChanges: "changes.running_groups:RunningGroupsOperator",
    nodes.WindowAggregate: "over.compiled:OverInKernels",
    nodes.WindowsAbreast: "over.abreast:OverAbreastOperator",
    WindowChanges: "over.window_changes:WindowChangesOperator",
    nodes.SortInPeriod: "sort.sort_in_period:SortInPeriodOperator",
    nodes.KeyedTable: "table.keyed_table:KeyedTableOperator",
    nodes.UniqueTable: "table.unique_table:UniqueTableOperator",
    nodes.PatchedTable: "table.patched_table:PatchedTableOperator",
    nodes.AsOfJoin: "join.as_of_join:AsOfJoinOperator",
    nodes.AsOfJoinOn: "join.as_of_join:AsOfJoinOperator",
    nodes.TableJoin: "table.table_join:TableJoinOperator",
    nodes.TopChanges: "table.top_changes:TopChangesOperator",
    nodes.NumberedChanges: "table.top_changes:TopChangesOperator",
    CombinedCopies: "table.combined_copies:CombinedCopiesOperator",
    nodes.WindowJoin: "join.window_join:WindowJoinOperator",
    nodes.Model: "model:ModelOperator",
    TableFunction: "python.table_function:TableFunctionOperator",
}
"""Node type to ``module:class`` below this package."""

BY_ROW: dict[type, str] = {
    nodes.GroupChanges: "changes.group_changes:GroupChangesOperator",
    nodes.KeyedTable: "table.keyed_table_by_row:KeyedTableByRow",
    nodes.UniqueTable: "table.unique_table:UniqueTableOperator",
    nodes.PatchedTable: "table.patched_table:PatchedTableOperator",
    nodes.TableJoin: "table.table_join_by_row:TableJoinByRow",
    nodes.TopChanges: "table.top_changes_by_row:TopChangesByRow",
    nodes.NumberedChanges: "table.top_changes_by_row:TopChangesByRow",
    nodes.WindowAggregate: "over.by_row.operator:OverOperator",
    WindowChanges: "over.window_changes:WindowChangesOperator",
}
"""The plain Python form of those that have one, beside a compiled one or alone."""


OF_CHANGES = "changes.changed_groups:ChangedGroupsOperator"
"""The compiled form of groups of changes."""
WITHOUT_KEY = "table.multiset_table:MultisetTableOperator"
"""The compiled form of a table without a primary key."""


@cache
def operator_type(node_type: type) -> OperatorType:
    """Return the operator class of a node type.

    Raises:
      KeyError: if none is registered.
    """
    return _loaded(OPERATORS[node_type])


def split(node: Node, state: State, parts: int) -> Sequence[State]:
    """Return the states of operators that each continue with a part of the rows, by ``partition_key``.

    ``merge`` makes the same state of them again, except for the order of keys where no order is kept.

    Raises:
      FaultError: the node has no key, so its operator has no parts; see ``splitting.can_split``.
    """
    kind: type = type(node)
    return [state] if parts == 1 else operator_type(kind).split(node, state, parts)


def make(node: Node, site: OperatorSite) -> Operator:
    """Make the operator of a plan node."""
    node_type: type = type(node)
    if isinstance(node, nodes.GroupChanges) and node.of_changes and node.form() is Form.COMPILED:
        return _loaded(OF_CHANGES)(node, site)
    if isinstance(node, nodes.KeyedTable) and not node.key and node.form() is Form.COMPILED:
        return _loaded(WITHOUT_KEY)(node, site)
    if node.form() is Form.BY_ROW:
        return _loaded(BY_ROW[node_type])(node, site)
    return operator_type(node_type)(node, site)


def _loaded(where: str) -> OperatorType:
    module, name = where.split(":")
    return cast("OperatorType", getattr(import_module(f"rowtide.operators.{module}"), name))
