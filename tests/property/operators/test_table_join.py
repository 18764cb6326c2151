"""The compiled join of two tables against the one that goes row by row."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from contract.operators.both_forms import check_both_forms
from contract.operators.inputs import Case
from contract.operators.table_join_model import table_joins
from rowtide.operators.table import table_join
from rowtide.operators.table.table_join import TableJoinOperator
from rowtide.operators.table.table_join_by_row import TableJoinByRow


@given(data=st.data(), case=table_joins(), clean=st.booleans())
def test_both_forms_do_the_same(data: st.DataObject, case: Case, clean: bool) -> None:
    check_both_forms(data, case, TableJoinOperator, TableJoinByRow, table_join, clean=clean)
