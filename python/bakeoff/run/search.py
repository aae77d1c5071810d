"""Add arms to a bisection while it runs: install, work out settings, load their data when it is first needed."""

import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bakeoff.engine import Engine
from bakeoff.plan import Plan
from bakeoff.run.arms import prepare_arms
from bakeoff.run.epoch_servers import EpochTools
from bakeoff.run.listener import Listener, download_reporter
from bakeoff.run.loading import Loader
from bakeoff.servers import ServerMemory
from bakeoff.spec import Study


@dataclass(frozen=True)
class Joining:
    """What arms that join a study are prepared and loaded with.

    Attributes:
        loader: None before anything can be loaded.
    """

    study: Study
    memory: ServerMemory
    listener: Listener
    stop: threading.Event
    loader: Loader | None = None

    def with_arm(self, tools: EpochTools, study: Study) -> EpochTools:
        """The tools with the study's last arm, installed.

        Raises:
            BakeoffError: it cannot be installed, or does not take its options.
        """
        alone = study.model_copy(update={"arms": study.arms[-1:]})
        reporter = download_reporter(self.listener, self.stop)
        setups = prepare_arms(alone, self.memory, passwords={}, on_progress=reporter, stop=self.stop)
        return replace(tools, study=study, setups=(*tools.setups, *setups))

    def with_data(self, tools: EpochTools, arms: Sequence[str], build: int) -> EpochTools:
        """The tools with the loads that these arms lack.

        Loads of options are removed after their epoch: hardly any combination is measured twice.

        Raises:
            BakeoffError: as `Loader.load_all`.
        """
        assert self.loader
        snapshots = dict(tools.snapshots)
        kept = {setup.build_key for setup in tools.setups[:2]}
        kept |= {setup.build_key for setup in tools.setups if setup.arm.name in arms}
        for key in [key for key in snapshots if self.study.search and self.study.search.options]:
            if key[0] not in kept:
                shutil.rmtree(snapshots.pop(key).path, ignore_errors=True)
        for setup in tools.setups:
            if setup.arm.name in arms and (setup.build_key, build) not in snapshots:
                with Engine(stop=self.stop, on_log=self.listener.note) as engine:
                    loader = replace(self.loader, study=tools.study, engine=engine)
                    snapshots |= loader.load_further(setup, build, setups=tools.setups)
        return replace(tools, snapshots=snapshots)


def with_arms(plan: Plan, study: Study) -> Plan:
    """The plan with the study's arms, some of which have joined since it was made."""
    return plan.model_copy(update={"arms": tuple(arm.name for arm in study.arms)})
