import pickle

import pytest
from counting_robot import CountingFactory, CountingRobot

from outrider.core.config import NoConfig, StrictModel
from outrider.core.errors import OutriderError
from outrider.core.host.objects import TaskProvider
from outrider.core.recipe import TaskSection
from outrider.core.simulation.build import task_of
from outrider.core.simulation.fleet import SerialFleet
from outrider.core.simulation.process_fleet import ProcessFleet


class CountingConfig(StrictModel):
    falls_at: int = 0


class ExpertConfig(StrictModel):
    speed: float = 1.0


def build(name, config):
    assert name == "counting"
    return CountingRobot(CountingFactory(falls_at=config.falls_at))


def build_expert(name, config):
    return (name, config.speed)


PROVIDER = TaskProvider(
    "test", lambda: ("counting",), CountingConfig, build, ExpertConfig, build_expert
)


class OneFamily:
    def __init__(self, provider=PROVIDER):
        self.provider = provider

    def task(self, name):
        return self.provider, name.partition("/")[2]


def section(**values):
    return TaskSection(name="test/counting", **values)


def test_options_reach_the_simulator_even_by_pickle():
    built = task_of(OneFamily(), section(options={"falls_at": 2}))
    factory = pickle.loads(pickle.dumps(built.factory))
    assert factory == built.factory
    assert factory().plan.falls_at == 2
    assert built.full_name == "test/counting"


@pytest.mark.parametrize(("workers", "kind"), [(0, SerialFleet), (1, ProcessFleet)])
def test_the_recipes_episode_limit_is_in_the_fleets_spec(workers, kind):
    built = task_of(OneFamily(), section(max_steps=3))
    fleet = built.fleet(2, workers)
    try:
        assert isinstance(fleet, kind)
        assert fleet.size == 2
        assert fleet.spec.max_steps == 3
        assert fleet.spec == built.spec(built.simulator())
    finally:
        fleet.close()


def test_an_unknown_option_is_named():
    with pytest.raises(OutriderError, match=r"task.options.fals_at: unknown key.*'falls_at'"):
        task_of(OneFamily(), section(options={"fals_at": 2}))


def test_the_expert_gets_its_options():
    built = task_of(OneFamily(), section())
    assert pickle.loads(pickle.dumps(built.expert({"speed": 0.5})))() == ("counting", 0.5)
    with pytest.raises(OutriderError, match=r"demos\.expert\.sped: unknown key"):
        built.expert({"sped": 0.5})


def test_a_family_without_an_expert_says_so():
    built = task_of(OneFamily(TaskProvider("test", tuple, NoConfig, build)), section())
    with pytest.raises(OutriderError, match="test/counting: there is no scripted expert"):
        built.expert({})
