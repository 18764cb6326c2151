"""The compiled first rows of a table against those that go row by row."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from contract.operators.both_forms import check_both_forms
from contract.operators.top_changes_model import top_changes as top_changes_cases
from rowtide.operators.table import top_changes
from rowtide.operators.table.top_changes import TopChangesOperator
from rowtide.operators.table.top_changes_by_row import TopChangesByRow


@given(data=st.data(), numbered=st.booleans(), clean=st.booleans())
def test_both_forms_do_the_same(data: st.DataObject, numbered: bool, clean: bool) -> None:
    case = data.draw(top_changes_cases(numbered=numbered))
    check_both_forms(data, case, TopChangesOperator, TopChangesByRow, top_changes, clean=clean)
