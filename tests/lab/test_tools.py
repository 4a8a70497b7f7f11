"""Tools out of functions, episodes in messages: schemas, checked arguments, limits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest
from transformers import PreTrainedTokenizerFast

from motet.chat.calls import ToolCall
from motet.chat.template import Chat, Message, encode
from motet.errors import BadConfig
from motet.lab.envs.conversation import Answer, ChatEnvironment, Conversation, Limits, Next, Said
from motet.lab.envs.own_file import open_tasks
from motet.lab.envs.protocol import Cue, End, Environment, Written
from motet.lab.envs.settings import FileSettings
from motet.lab.envs.tools import Toolbox, ToolError, describe

ROOT = Path(__file__).parents[2]


class Shop:
    """Tools with state."""

    def __init__(self) -> None:
        self.sold: list[str] = []

    def sell(self, item: str, kind: Literal["old", "new"], count: int = 1) -> dict[str, int]:
        """Sell an item."""
        if count < 1:
            raise ToolError("count must be 1 or more")
        self.sold += [f"{kind} {item}"] * count
        return {"sold": len(self.sold)}

    async def wait(self) -> str:
        """Wait a little."""
        await asyncio.sleep(0)
        return "waited"


def use(toolbox: Toolbox, tool: str, **arguments: object) -> str:
    return asyncio.run(toolbox.use(ToolCall(tool, dict(arguments))))


def test_the_schema_comes_from_the_function() -> None:
    assert Toolbox([Shop().sell]).schemas[0] == {
        "type": "function",
        "function": {
            "name": "sell",
            "description": "Sell an item.",
            "parameters": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "item": {"type": "string"},
                    "kind": {"type": "string", "enum": ["old", "new"]},
                    "count": {"type": "integer", "default": 1},
                },
                "required": ["item", "kind"],
            },
        },
    }


def test_arguments_that_a_call_format_knows_as_text_only() -> None:
    def note(items: list[str], count: int | None, text: str) -> str:
        return f"{items} {count} {text}"

    box = Toolbox([note])
    assert use(box, "note", items='["a", "b"]', count="2", text="[1]") == "['a', 'b'] 2 [1]"
    assert use(box, "note", items="a", count="2", text="1").startswith("error: items")


def test_arguments_are_checked_and_mistakes_are_told_never_raised() -> None:
    shop = Shop()
    box = Toolbox([shop.sell, shop.wait])
    assert use(box, "sell", item="hat", kind="new", count=2) == '{"sold": 2}'
    assert use(box, "wait") == "waited"
    assert "kind: Input should be 'old' or 'new'" in use(box, "sell", item="hat", kind="blue")
    assert "colour: Extra inputs" in use(box, "sell", item="hat", kind="new", colour="red")
    assert use(box, "sell", item="hat", kind="new", count=0) == "error: count must be 1 or more"
    assert use(box, "__import__", name="os") == "error: there is no tool '__import__'; there are sell, wait"
    assert shop.sold == ["new hat", "new hat"]


def test_a_parameter_without_a_type_is_refused() -> None:
    def tool(x) -> str:  # type: ignore[no-untyped-def]
        return str(x)

    with pytest.raises(BadConfig, match="tool needs a type at its parameter x"):
        describe(tool)


class Selling(Conversation):
    """Sell something, then say bye."""

    def __init__(self, slow: bool = False) -> None:
        self.shop = Shop()
        self.slow = slow
        super().__init__(tools=[self.shop.sell, self.shop.wait])

    async def opening(self) -> list[Message]:
        return [{"role": "user", "content": "Sell a hat."}]

    async def reply(self, said: Said) -> Next:
        if self.slow:
            await asyncio.sleep(5)
        if "bye" in said.text:
            return End(float(bool(self.shop.sold)), "sold" if self.shop.sold else "not sold")
        return Answer([{"role": "user", "content": "Go on."}], reward=0.25)


CALL = '<tool_call>\n{"name": "sell", "arguments": {"item": "hat", "kind": "new"}}\n</tool_call>'


def play(env: Environment, tokenizer: PreTrainedTokenizerFast, *turns: str, stopped: bool = True) -> list[Cue | End]:
    async def test() -> list[Cue | End]:
        seen: list[Cue | End] = [await env.start()]
        for turn in turns:
            tokens = encode(tokenizer, turn)
            seen.append(await env.step(Written(tokens, [0.0] * len(tokens), turn, stopped)))
        return seen

    return asyncio.run(test())


def test_an_episode_in_messages(chatty: PreTrainedTokenizerFast) -> None:
    env = ChatEnvironment(Selling(), Chat(chatty), Limits())
    opening, result, more, end = play(env, chatty, f"{CALL}<|im_end|>", "hm<|im_end|>", "bye<|im_end|>")
    assert isinstance(opening, Cue) and '"sell"' in chatty.decode(opening.tokens)
    assert isinstance(result, Cue) and '{"sold": 1}' in chatty.decode(result.tokens) and result.reward == 0
    assert isinstance(more, Cue) and "Go on." in chatty.decode(more.tokens) and more.reward == 0.25
    assert end == End(1.0, "sold")


@pytest.mark.parametrize(
    ("limits", "turns", "outcome"),
    [
        (Limits(turns=2), ("hm", "hm"), "out of turns"),
        (Limits(tokens=540), ("hm", "hm", "hm"), "out of tokens"),
        (Limits(seconds=0.2), ("hm",), "out of time"),
    ],
)
def test_limits_end_an_episode(
    chatty: PreTrainedTokenizerFast, limits: Limits, turns: tuple[str, ...], outcome: str
) -> None:
    env = ChatEnvironment(Selling(slow=outcome == "out of time"), Chat(chatty), limits)
    seen = play(env, chatty, *turns)
    ended = [one for one in seen if isinstance(one, End)]
    assert ended[0] == End(0.0, outcome)


def test_what_is_written_stays_within_the_context(chatty: PreTrainedTokenizerFast) -> None:
    wanted = FileSettings(name="file", path=Path("own.py"), turn_tokens=100, episode_tokens=1000)
    limits = wanted.within(540).limits
    assert limits.tokens == 540 and wanted.within(4096).limits.tokens == 1000
    cues = [one for one in play(ChatEnvironment(Selling(), Chat(chatty), limits), chatty, "hm") if isinstance(one, Cue)]
    read = [len(one.tokens) for one in cues]
    assert [one.max_tokens for one in cues] == [540 - read[0], 540 - read[0] - read[1] - len(encode(chatty, "hm"))]
    with pytest.raises(BadConfig, match="set episode_tokens higher"):
        play(ChatEnvironment(Selling(), Chat(chatty), Limits(tokens=180)), chatty)


def test_a_turn_that_was_cut_ends_the_episode(chatty: PreTrainedTokenizerFast) -> None:
    env = ChatEnvironment(Selling(), Chat(chatty), Limits())
    assert play(env, chatty, CALL, stopped=False)[1] == End(0.0, "truncated")


OWN = """
from motet.lab.envs.conversation import Conversation
from motet.lab.envs.protocol import End

class Echo(Conversation):
    def __init__(self, index):
        super().__init__()
        self.index = index
    async def opening(self):
        return [{"role": "user", "content": f"Say {self.index}."}]
    async def reply(self, said):
        return End(float(str(self.index) == said.text), "said")

def train(index):
    return Echo(index)
"""


def test_a_file_of_ones_own(chatty: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    tasks = open_tasks(file, chatty, 0, {}, Limits())
    assert play(tasks.train(7), chatty, "7<|im_end|>")[1] == End(1.0, "said")
    assert play(tasks.held_out(7), chatty, "8<|im_end|>")[1] == End(0.0, "said")
    with pytest.raises(BadConfig, match="takes no options"):
        open_tasks(file, chatty, 0, {"level": 3}, Limits())
    file.write_text("x = 1")
    with pytest.raises(BadConfig, match="defines neither"):
        open_tasks(file, chatty, 0, {}, Limits())
    file.write_text("def tasks(tokenizer, seed, level=1): return (seed, level)")
    assert open_tasks(file, chatty, 4, {"level": 3}, Limits()) == (4, 3)
    with pytest.raises(BadConfig, match="does not take these options"):
        open_tasks(file, chatty, 4, {"levl": 3}, Limits())
    with pytest.raises(BadConfig, match="there is no"):
        open_tasks(tmp_path / "none.py", chatty, 0, {}, Limits())


def test_the_example_of_ones_own_environment(chatty: PreTrainedTokenizerFast) -> None:
    tasks = open_tasks(ROOT / "examples" / "guess.py", chatty, 0, {}, Limits(turns=4))
    call = '{"name": "compare", "arguments": {"guess": 0}}<|im_end|>'
    number = next(n for n in range(1, 11) if play(tasks.train(3), chatty, f"{n}<|im_end|>")[1] == End(1.0, "right"))
    opening, compared, asked, end = play(tasks.train(3), chatty, call, "hm<|im_end|>", f"It is {number}.<|im_end|>")
    assert isinstance(opening, Cue) and '"compare"' in chatty.decode(opening.tokens)
    assert isinstance(compared, Cue) and "larger" in chatty.decode(compared.tokens)
    assert isinstance(asked, Cue) and asked.reward == -0.1 and end == End(1.0, "right")
