"""Which plans can run, and where they commit: ``check``, ``connectors check`` and ``run`` refuse the same ones.

Nothing here connects, but an object store may be asked where it is.
"""

from __future__ import annotations

from rowtide.checkpoint.parts.files import FileParts
from rowtide.checkpoint.parts.store import IN_DATABASE, PartStore
from rowtide.errors import StatementError
from rowtide.plan.plan import Plan, Server
from rowtide.runtime.topics import refuse_own_topics
from rowtide_connectors.registry import find_sink


def refuse_unrunnable(plan: Plan, checkpoint_url: str | None, parts: str | None) -> None:
    """Refuse a plan that no run takes. One without pumps may be checked: see ``nothing_to_run``.

    ``parts`` is the setting ``checkpoint.parts``.

    Raises:
      As ``refuse_own_topics``, ``database_server`` and ``parts_store``.
    """
    refuse_own_topics(plan)
    if plan.pumps:
        database_server(plan, checkpoint_url)
        parts_store(plan, parts, checkpoint_url)


def nothing_to_run(plan: Plan) -> StatementError | None:
    """Return why a run of a plan without pumps is refused; None: it has pumps. Its definitions may be checked."""
    if plan.pumps:
        return None
    return StatementError(
        "no pump writes to a foreign table or a foreign stream, so the pipeline does nothing",
        hint="CREATE PUMP name STARTED AS INSERT INTO a foreign table SELECT .. creates one.",
    )


def database_server(plan: Plan, checkpoint_url: str | None) -> Server:
    """Return the server whose database has the output and the positions of a pipeline.

    ``checkpoint_url`` is the database of a pipeline without foreign tables.

    Raises:
      StatementError: the plan has no pumps, no database, or two of them.
      OptionError: a connector has no sink.
    """
    servers = {server.name: server for server in plan.servers}
    used: list[Server] = []
    for table in plan.foreign_tables:
        server = servers[table.server]
        find_sink(server.wrapper)
        if all((server.wrapper, server.options) != (each.wrapper, each.options) for each in used):
            used.append(server)
    if len(used) > 1:
        raise StatementError(
            f'foreign tables are in two databases, those of server "{used[0].name}" and of server "{used[1].name}"',
            hint="Output and positions commit in one transaction, so all tables of a pipeline must be in "
            "one database.",
        )
    if used:
        return used[0]
    if checkpoint_url is None:
        raise nothing_to_run(plan) or StatementError(
            "the pipeline has no foreign table, so its positions have no database to be stored in",
            hint="Set checkpoint.url in the configuration.",
        )
    return Server("checkpoint.url", "RDBMS", (("url", checkpoint_url),))


def parts_store(plan: Plan, where: str | None, checkpoint_url: str | None) -> PartStore | None:
    """Return the store in which tasks of Spark keep state in parts: ``checkpoint.parts`` is ``where``.

    Raises:
      StatementError: it cannot be used.
      As ``database_server``, whose database may be the store.
    """
    if where is None:
        return None
    if where == IN_DATABASE:
        from rowtide.checkpoint.parts.in_database import PartsOfServer

        server = database_server(plan, checkpoint_url)
        return PartsOfServer(server.wrapper, dict(server.options))
    try:
        store = FileParts(where)
        store.check()
    except StatementError as error:
        raise StatementError(f"checkpoint.parts: {error.message}", hint=error.hint) from error
    return store
