"""Compiled groups of changes against those that go row by row."""

from __future__ import annotations

from contextlib import nullcontext

from hypothesis import given, settings
from hypothesis import strategies as st

from contract.operators.both_forms import check_both_forms
from contract.operators.cases import groups_of_changes
from contract.operators.inputs import easy_values
from rowtide.operators.changes import changed_groups
from rowtide.operators.changes.changed_groups import ChangedGroupsOperator
from rowtide.operators.changes.group_changes import GroupChangesOperator


@settings(max_examples=200)
@given(data=st.data(), easy=st.booleans(), clean=st.booleans())
def test_both_forms_do_the_same(data: st.DataObject, easy: bool, clean: bool) -> None:
    with easy_values() if easy else nullcontext():
        case = data.draw(groups_of_changes())
    check_both_forms(data, case, ChangedGroupsOperator, GroupChangesOperator, changed_groups, clean=clean)
