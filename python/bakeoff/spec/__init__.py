"""What the user asked for, as frozen values: servers, arms, workloads, a stopping rule."""

from bakeoff.spec.fields import Frozen, Placement, Profile
from bakeoff.spec.server_name import Origin, ServerSpec, parse_server
from bakeoff.spec.study import Arm, Connection, Data, Question, Study, Workload, control_of

__all__ = [
    "Arm", "Connection", "Data", "Frozen", "Origin", "Placement", "Profile", "Question", "ServerSpec", "Study",
    "Workload", "control_of", "parse_server",
]  # fmt: skip
