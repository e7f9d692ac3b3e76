"""The kinds of operators: one folder each, and one line here.

`spec.py` of a folder is pure and may import nothing but `core`; everybody may import it. `draft.py`
is the operator while SQL is planned, and belongs to the planner. `build.py` and `task.py` lie above
the engine, which finds them by the folder of the spec. Read `core/operator_spec.py` and
`planner/drafts/draft.py` first, then `deduplicate/` as an example with state.
"""

from headgate.operators.dead_letters.spec import DeadLettersSpec
from headgate.operators.deduplicate.spec import DeduplicateSpec
from headgate.operators.lookup_join.spec import LookupJoinSpec
from headgate.operators.process.spec import ProcessSpec
from headgate.operators.project.spec import ProjectSpec
from headgate.operators.sink.spec import SinkSpec
from headgate.operators.source.spec import SourceSpec
from headgate.operators.sql.spec import SqlSpec
from headgate.operators.union.spec import UnionSpec
from headgate.operators.updating_aggregate.spec import UpdatingAggregateSpec
from headgate.operators.updating_join.spec import UpdatingJoinSpec
from headgate.operators.window_aggregate.spec import WindowAggregateSpec

__all__ = [
    "DeadLettersSpec",
    "DeduplicateSpec",
    "LookupJoinSpec",
    "ProcessSpec",
    "ProjectSpec",
    "SinkSpec",
    "SourceSpec",
    "SqlSpec",
    "UnionSpec",
    "UpdatingAggregateSpec",
    "UpdatingJoinSpec",
    "WindowAggregateSpec",
]
