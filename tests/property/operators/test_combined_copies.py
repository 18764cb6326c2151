"""EXCEPT ALL and INTERSECT ALL of tables: the compiled form and the one in Python, each from the state of the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from contract.operators.both_forms import check_both_forms
from contract.operators.by_row.combined_copies_by_row import CombinedCopiesByRow
from contract.operators.inputs import Case
from contract.operators.kinds.combined_copies import combined_copies
from rowtide.operators.table import combined_copies as compiled
from rowtide.operators.table.combined_copies import CombinedCopiesOperator


@given(combined_copies(), st.booleans(), st.data())
def test_both_forms_give_the_same_rows(case: Case, clean: bool, data: st.DataObject) -> None:
    check_both_forms(data, case, CombinedCopiesOperator, CombinedCopiesByRow, compiled, clean=clean)
