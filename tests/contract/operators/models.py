"""The model of each plan node; see ``model``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from contract.operators.changes_model import ChangesModel
from contract.operators.engine_models import EngineModel
from contract.operators.group_models import (
    CumulateModel,
    GroupModel,
    HopModel,
    SessionModel,
    SortInPeriodModel,
)
from contract.operators.join_models import JoinModel, WindowJoinModel
from contract.operators.kinds import MODELS_OF
from contract.operators.looping_models import NODE as LOOPING
from contract.operators.looping_models import LoopingModel
from contract.operators.model import Model
from contract.operators.over_model import AbreastModel, OverModel
from contract.operators.stream_models import (
    FilterInsertsModel,
    FilterModel,
    MergeModel,
    PatchedTableModel,
    ProjectKeysModel,
    ProjectModel,
    PromoteModel,
    SortModel,
    TableModel,
    UniqueTableModel,
)
from contract.operators.table_join_model import TableJoinModel
from contract.operators.top_changes_model import TopChangesModel
from rowtide.operators.contract import OperatorSite
from rowtide.plan.nodes import (
    AsOfJoin,
    AsOfJoinOn,
    Filter,
    FilterInserts,
    GroupByCumulate,
    GroupByHop,
    GroupByPeriod,
    GroupBySession,
    GroupChanges,
    KeyedTable,
    Merge,
    Node,
    NumberedChanges,
    PatchedTable,
    Project,
    ProjectKeys,
    Promote,
    Sort,
    SortInPeriod,
    TableJoin,
    TopChanges,
    UniqueTable,
    WindowAggregate,
    WindowJoin,
    WindowsAbreast,
)
from rowtide.plan.nodes import Model as EngineNode

MODELS: dict[type, Callable[[Any, OperatorSite], Model]] = {
    Filter: FilterModel,
    FilterInserts: FilterInsertsModel,
    Project: ProjectModel,
    ProjectKeys: ProjectKeysModel,
    Promote: PromoteModel,
    Sort: SortModel,
    Merge: MergeModel,
    GroupByPeriod: GroupModel,
    KeyedTable: TableModel,
    AsOfJoin: JoinModel,
    AsOfJoinOn: JoinModel,
    WindowAggregate: OverModel,
    WindowsAbreast: AbreastModel,
    WindowJoin: WindowJoinModel,
    GroupByHop: HopModel,
    GroupByCumulate: CumulateModel,
    GroupBySession: SessionModel,
    GroupChanges: ChangesModel,
    TableJoin: TableJoinModel,
    TopChanges: TopChangesModel,
    PatchedTable: PatchedTableModel,
    UniqueTable: UniqueTableModel,
    NumberedChanges: TopChangesModel,
    SortInPeriod: SortInPeriodModel,
    EngineNode: lambda node, place: (LoopingModel if node == LOOPING else EngineModel)(node, place),
    **MODELS_OF,
}


def model_of(node: Node, site: OperatorSite) -> Model:
    """Make the model of a plan node."""
    return MODELS[type(node)](node, site)


def origins_out(node: Node, site: OperatorSite) -> tuple[int, ...]:
    """Return the origins of the rows that leave, in their order at one rowtime.

    See docs/sql/semantics.md#merge-order.
    """
    match node:
        case GroupByPeriod() | GroupByHop() | GroupByCumulate() | GroupBySession():
            return (site.origin,)
        case SortInPeriod() | WindowJoin():
            return (site.origin,)
        case EngineNode():
            return (site.origin,)
        case GroupChanges(every_ms=every) if every is not None:
            return (site.origin,)
        case Sort() if site.merged:
            return (site.origin,)
        case AsOfJoin():
            return site.port_origins[1]
        case _:
            return unique(origin for origins in site.port_origins for origin in origins)


def unique(origins: Iterable[int]) -> tuple[int, ...]:
    """Return each origin once, where it stands first."""
    return tuple(dict.fromkeys(origins))
