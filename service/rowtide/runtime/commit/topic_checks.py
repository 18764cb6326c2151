"""Whether the topics of a commit are still the topics that its rows were read from.

An id of a topic never comes back, so rows that were read before the answer of
the broker are rows of the topic of that id. The query is sent before the rows
are written, and its answer is needed before COMMIT: a commit does not wait for
the broker and the database one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from rowtide.checkpoint.ledger import PartitionPosition, is_resubmission
from rowtide.runtime.ingest.intake import begin_identity_check, check_identity
from rowtide.runtime.retry import Retry
from rowtide.runtime.topics import known_ids
from rowtide_connectors.api import TopicSource
from rowtide_connectors.errors import UnavailableError

ANSWER_WITHIN_S = 1.0
"""How long an open transaction waits for a broker. Then it is rolled back, and the wait is outside of it."""


class NoAnswerError(Exception):
    """A broker has not answered in time."""


class TopicChecks:
    """The checks of one commit, whose rows have been read.

    Args:
      sources: by relation.
      positions: of the commit; those of resubmitted rows have no topic.
      fetching: repeats what fails because a broker is down.
    """

    def __init__(
        self, sources: Mapping[str, TopicSource], positions: Collection[PartitionPosition], fetching: Retry
    ) -> None:
        known = known_ids(positions)
        moved = {each.relation for each in positions if not is_resubmission(each.place)}
        self._topics = [(sources[relation], known.get(relation)) for relation in sorted(moved)]
        self._fetching = fetching
        self._answers: Sequence[Callable[[], None]] | None = None
        self._done = False

    def begin(self) -> None:
        """Send the queries, unless they have been answered."""
        self._answers = None
        if not self._done:
            try:
                self._answers = [
                    begin_identity_check(source, known, ANSWER_WITHIN_S) for source, known in self._topics
                ]
            except UnavailableError:
                # ``end`` reports it, and ``wait`` repeats it.
                self._answers = None

    def end(self) -> None:
        """Wait for the answers for a short time.

        Raises:
          NoAnswerError: a broker does not answer; ``wait`` is needed.
          StatementError: a topic was deleted and created again.
        """
        if self._done:
            return
        if self._answers is None:
            raise NoAnswerError
        try:
            for answer in self._answers:
                answer()
        except UnavailableError as error:
            raise NoAnswerError from error
        self._done = True

    def wait(self) -> None:
        """Check the topics, and wait for their brokers for as long as needed.

        Raises:
          StatementError: a topic was deleted and created again.
          TransientError, StoppedError: as ``Retry.call``.
        """
        for source, known in self._topics:
            self._fetching.call(partial(check_identity, source, known))
        self._done = True
