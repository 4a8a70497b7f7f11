"""tau-bench retail on the published files: every task's actions are paid, others are not, and an episode is played."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from transformers import PreTrainedTokenizerFast

from motet.chat.calls import ToolCall
from motet.chat.template import Chat, encode
from motet.errors import BadConfig
from motet.lab.envs.conversation import ChatEnvironment, Limits
from motet.lab.envs.protocol import Cue, End, Environment, Written
from motet.lab.envs.tau_bench.data import Shop, Task, read_shop
from motet.lab.envs.tau_bench.environment import Retail, replayed, solved_by_nothing, tools_of
from motet.lab.envs.tau_bench.settings import TauBenchRetailSettings
from motet.lab.envs.tau_bench.state import State
from motet.lab.envs.tau_bench.users import STOP, EndpointCustomer, ScriptedCustomer, UserFailed
from motet.lab.envs.tools import Toolbox

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "tau_bench_retail"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"needs tau-bench retail's files in {FOLDER}")
WRITES = ("cancel", "exchange", "modify", "return")


@pytest.fixture(scope="module")
def shop() -> Shop:
    return read_shop(FOLDER)


def all_tasks(shop: Shop) -> list[Task]:
    return [*shop.tasks["train"], *shop.tasks["test"]]


def episode(shop: Shop, task: Task, tokenizer: PreTrainedTokenizerFast, lines: list[str]) -> Environment:
    limits = Limits(turns=60, turn_tokens=10_000, tokens=10**7)
    return ChatEnvironment(Retail(shop, task, ScriptedCustomer(lines), told=False), Chat(tokenizer), limits)


async def play(env: Environment, tokenizer: PreTrainedTokenizerFast, turns: Sequence[str]) -> Cue | End:
    """The agent writes these turns; what the last one led to."""
    seen: Cue | End = await env.start()
    for turn in turns:
        assert isinstance(seen, Cue), seen
        tokens = encode(tokenizer, turn)
        seen = await env.step(Written(tokens, [0.0] * len(tokens), turn, True))
    return seen


def as_text(call: ToolCall) -> str:
    return f"<tool_call>\n{json.dumps({'name': call.name, 'arguments': call.arguments})}\n</tool_call><|im_end|>"


def turns_of(actions: Sequence[ToolCall]) -> list[str]:
    """As an agent would write them; it says goodbye where it has not handed over."""
    told = [as_text(call) for call in actions]
    return told if actions and actions[-1].name == "transfer_to_human_agents" else [*told, "All done.<|im_end|>"]


def test_all_tasks_load(shop: Shop) -> None:
    assert {split: len(tasks) for split, tasks in shop.tasks.items()} == {"train": 74, "test": 40}
    assert len(Toolbox(tools_of(State(shop.tables))).schemas) == 16
    used = {call.name for task in all_tasks(shop) for call in task.actions}
    assert used <= {tool["function"]["name"] for tool in Toolbox(tools_of(State(shop.tables))).schemas}


def test_the_published_actions_of_every_task_are_paid(shop: Shop, chatty: PreTrainedTokenizerFast) -> None:
    async def test() -> list[str]:
        short = Shop(shop.tables, "Be helpful.", shop.tasks)
        ends = {}
        for task in all_tasks(shop):
            turns = turns_of(task.actions)
            ends[task.id] = await play(episode(short, task, chatty, [task.scenario[:40]]), chatty, turns)
        return [task_id for task_id, end in ends.items() if not (isinstance(end, End) and end.reward == 1.0)]

    assert asyncio.run(test()) == []


def changed(call: ToolCall) -> ToolCall:
    """The same with another order, item or address."""
    arguments = dict(call.arguments)
    for key in ("new_item_ids", "item_ids"):
        if key in arguments:
            return ToolCall(call.name, {**arguments, key: []})
    key = "reason" if "reason" in arguments else "address1" if "address1" in arguments else "payment_method_id"
    other = {"no longer needed": "ordered by mistake", "ordered by mistake": "no longer needed"}
    return ToolCall(call.name, {**arguments, key: other.get(arguments[key], f"{arguments[key]} x")})


def test_a_changed_or_a_missing_action_is_not_paid(shop: Shop) -> None:
    """Every action of every task that wrote to the database; a task may hold one whose effect another hides."""

    async def test() -> list[tuple[str, int]]:
        paid = []
        for task in all_tasks(shop):
            wanted = await replayed(shop, task.actions)
            for place, call in enumerate(task.actions):
                without = [*task.actions[:place], *task.actions[place + 1 :]]
                if not call.name.startswith(WRITES) or (await replayed(shop, without)).same_as(wanted):
                    continue
                other = [*task.actions[:place], changed(call), *task.actions[place + 1 :]]
                if (await replayed(shop, other)).same_as(wanted):
                    paid.append((task.id, place))
        return paid

    assert asyncio.run(test()) == []


def test_an_action_too_many_is_not_paid(shop: Shop, chatty: PreTrainedTokenizerFast) -> None:
    task = next(task for task in shop.tasks["test"] if task.actions)
    pending = next(one["order_id"] for one in shop.tables["orders"].values() if one["status"] == "pending")
    extra = ToolCall("cancel_pending_order", {"order_id": pending, "reason": "no longer needed"})
    end = asyncio.run(play(episode(shop, task, chatty, ["Hello"]), chatty, turns_of([*task.actions, extra])))
    assert isinstance(end, End) and end.reward == 0.0


def test_what_nothing_solves_is_left_out_and_named(shop: Shop, chatty: PreTrainedTokenizerFast) -> None:
    empty = asyncio.run(solved_by_nothing(shop, told=False))
    assert len(empty["test"]) == 4
    settings = TauBenchRetailSettings(name="tau_bench_retail", path=FOLDER, customer="script")
    tasks: Any = settings.build(chatty, 0)
    assert [task.id for task in tasks.left_out["test"]] == [task.id for task in empty["test"]]
    assert len(tasks.kept("test")) == 36 and len(tasks.kept("train")) == 74 - len(empty["train"])
    whole: Any = settings.model_copy(update={"keep_empty": True}).build(chatty, 0)
    assert len(whole.kept("test")) == 40


def test_episodes_do_not_see_each_other(shop: Shop) -> None:
    before = json.dumps(shop.tables)
    first, second = State(shop.tables), State(shop.tables)
    order = next(key for key, one in shop.tables["orders"].items() if one["status"] == "pending")
    Toolbox(tools_of(first))
    first.change("orders", order)["status"] = "cancelled"
    assert second.look("orders", order)["status"] == "pending" and not second.differences()
    assert list(first.differences()) == [("orders", order)] and json.dumps(shop.tables) == before


def test_tools_tell_what_cannot_be_done(shop: Shop) -> None:
    state = State(shop.tables)
    box = Toolbox(tools_of(state))
    delivered = next(one for one in shop.tables["orders"].values() if one["status"] == "delivered")
    refused = [
        ToolCall("cancel_pending_order", {"order_id": delivered["order_id"], "reason": "no longer needed"}),
        ToolCall("cancel_pending_order", {"order_id": delivered["order_id"], "reason": "I am bored"}),
        ToolCall("get_order_details", {"order_id": "W1"}),
        ToolCall("find_user_id_by_email", {"email": "nobody@example.com"}),
        ToolCall("calculate", {"expression": "__import__('os')"}),
        ToolCall(
            "return_delivered_order_items",
            {"order_id": delivered["order_id"], "item_ids": ["1", "1"], "payment_method_id": "paypal_1"},
        ),
    ]
    for call in refused:
        assert asyncio.run(box.use(call)).startswith("error: "), call
    assert not state.differences()
    assert asyncio.run(box.use(ToolCall("calculate", {"expression": "(23.5+18)*2"}))) == "83.0"


def test_a_customer_behind_an_endpoint() -> None:
    asked: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        if len(asked) == 1:
            return httpx.Response(503)
        return httpx.Response(200, json={"choices": [{"message": {"content": STOP}}]})

    def customer(handler: Any) -> EndpointCustomer:
        url = "http://user/v1"
        return EndpointCustomer(url, "m", "k", "You want a hat.", 7, httpx.MockTransport(handler), pause=0.001)

    assert asyncio.run(customer(answer).say([{"role": "user", "content": "Hi"}])) == STOP
    assert len(asked) == 2 and "You want a hat." in asked[1]["messages"][0]["content"] and asked[1]["seed"] == 7
    with pytest.raises(UserFailed, match="did not answer"):
        asyncio.run(customer(lambda request: httpx.Response(500)).say([]))


def test_a_folder_without_the_files(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="set environment.path"):
        read_shop(tmp_path)
