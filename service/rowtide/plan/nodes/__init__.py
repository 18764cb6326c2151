"""The nodes of a relational plan, each with all that is known about it (``nodes.node``)."""

from rowtide.plan.nodes.changes.group_changes import GroupChanges
from rowtide.plan.nodes.changes.table import KeyedTable, PatchedTable, UniqueTable
from rowtide.plan.nodes.changes.top_changes import NumberedChanges, TopChanges
from rowtide.plan.nodes.group import GroupByCumulate, GroupByHop, GroupByPeriod, GroupBySession, GroupNode
from rowtide.plan.nodes.join.as_of_join import AsOfJoin, AsOfJoinOn
from rowtide.plan.nodes.join.join_kind import JoinKind
from rowtide.plan.nodes.join.table_join import TableJoin
from rowtide.plan.nodes.join.window_join import JoinTime, WindowJoin
from rowtide.plan.nodes.merge import Merge, merged
from rowtide.plan.nodes.model import Model, ModelPort
from rowtide.plan.nodes.node import Form, Node, PartitionKey
from rowtide.plan.nodes.row_wise import BoundPolicy, Filter, FilterInserts, Project, ProjectKeys, Promote
from rowtide.plan.nodes.sort import Sort
from rowtide.plan.nodes.sort_in_period import SortInPeriod
from rowtide.plan.nodes.sources import CommittedTable, Source, TableSource
from rowtide.plan.nodes.walk import below_same_rowtime, nodes_below, rewrite, with_inputs
from rowtide.plan.nodes.window import WaitingWindow, WindowAggregate, WindowsAbreast

__all__ = [
    "AsOfJoin",
    "AsOfJoinOn",
    "BoundPolicy",
    "CommittedTable",
    "Filter",
    "FilterInserts",
    "GroupNode",
    "GroupByCumulate",
    "GroupByHop",
    "GroupByPeriod",
    "GroupBySession",
    "GroupChanges",
    "JoinKind",
    "JoinTime",
    "KeyedTable",
    "Merge",
    "Model",
    "ModelPort",
    "Node",
    "NumberedChanges",
    "PartitionKey",
    "PatchedTable",
    "Form",
    "Project",
    "ProjectKeys",
    "Promote",
    "Sort",
    "SortInPeriod",
    "Source",
    "TableJoin",
    "TableSource",
    "TopChanges",
    "UniqueTable",
    "WaitingWindow",
    "WindowAggregate",
    "WindowJoin",
    "WindowsAbreast",
    "below_same_rowtime",
    "merged",
    "nodes_below",
    "rewrite",
    "with_inputs",
]
