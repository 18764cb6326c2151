"""Models of the scenarios beside this file."""

from __future__ import annotations

from decimal import Decimal

from rowtide.engine import INSERT, Fifo, Hashed, ModelSetup, Rowop, RowType, Table, TableType
from rowtide.rows.types import decimal

MONEY = decimal(12, 2)
MOVEMENT = RowType(account="string", amount=MONEY)
LIMIT = RowType(account="string", least=MONEY)
BALANCE = RowType(account="string", amount=MONEY, since="timestamp")
ALARM = RowType(account="string", amount=MONEY, first="boolean")


class Accounts:
    """Adds movements up, refuses what goes below an account's limit, and reminds of a debt after a while."""

    def __init__(self, setup: ModelSetup, remind_after_ms: int) -> None:
        unit, clock = setup.unit, setup.clock
        balances = Table(unit, "balances", TableType(BALANCE, by_account=Hashed("account")))
        limits = Table(unit, "limits", TableType(LIMIT, by_account=Hashed("account")))
        history = Table(unit, "history", TableType(MOVEMENT, by_account=Hashed("account", last=Fifo(2))))
        reminders = unit.label("reminders", ALARM)

        @unit.handler(ALARM)
        def remind(rowop: Rowop) -> None:
            held = balances.find_by(account=rowop.row.account)
            if held is not None and held.row.amount < 0:
                reminders.insert(ALARM.row(rowop.row.account, held.row.amount, rowop.row.first))
                clock.at(
                    clock.rowtime + remind_after_ms,
                    remind.rowop(INSERT, ALARM.row(rowop.row.account, held.row.amount, False)),
                )

        @unit.handler(MOVEMENT)
        def move(rowop: Rowop) -> None:
            account, amount = rowop.row
            history.insert(rowop.row)
            held, limit = balances.find_by(account=account), limits.find_by(account=account)
            before = held.row.amount if held is not None else Decimal(0)
            balances.insert(BALANCE.row(account, before + amount, clock.rowtime))
            if before + amount < (limit.row.least if limit is not None else 0):
                raise ValueError(f"account {account} would stand at {before + amount}")
            if before + amount < 0 <= before:
                clock.at(
                    clock.rowtime + remind_after_ms,
                    remind.rowop(INSERT, ALARM.row(account, before + amount, True)),
                )

        setup.input("movements", move)
        setup.input("limits", limits.input)
        setup.table("balances", balances)
        setup.table("history", history)
        setup.output("reminders", reminders)
