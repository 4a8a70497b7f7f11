"""A call at the shop: the agent is the policy, the customer whoever plays it, the reward what became of the database.

An episode is paid 1 where the database ends as the published actions would have left it, else 0; with `told` the
customer must also have been told what the task lists. Fields of the task that want a model for a judge are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from motet.chat.calls import ToolCall
from motet.chat.template import Chat, Message
from motet.lab.envs.conversation import Answer, ChatEnvironment, Conversation, Limits, Next, Said
from motet.lab.envs.protocol import End, Environment
from motet.lab.envs.tau_bench.data import SPLITS, Shop, SplitName, Task
from motet.lab.envs.tau_bench.reading import ReadingTools
from motet.lab.envs.tau_bench.state import State
from motet.lab.envs.tau_bench.users import GREETING, OVER, Consistent, Customer
from motet.lab.envs.tau_bench.writing import WritingTools
from motet.lab.envs.tools import Toolbox

TRANSFER_TOOL = "transfer_to_human_agents"  # ends the call
Cast = Callable[[Task, int], Customer]  # a task and a seed -> who plays its customer


def tools_of(state: State) -> list[Callable[..., object]]:
    """The sixteen published tools over one episode's database."""
    look, do = ReadingTools(state), WritingTools(state)
    return [
        look.calculate,
        do.cancel_pending_order,
        do.exchange_delivered_order_items,
        look.find_user_id_by_email,
        look.find_user_id_by_name_zip,
        look.get_item_details,
        look.get_order_details,
        look.get_product_details,
        look.get_user_details,
        look.list_all_product_types,
        do.modify_pending_order_address,
        do.modify_pending_order_items,
        do.modify_pending_order_payment,
        do.modify_user_address,
        do.return_delivered_order_items,
        look.transfer_to_human_agents,
    ]


async def replayed(shop: Shop, actions: Sequence[ToolCall]) -> State:
    """The database after these actions; what they cannot do they do not do."""
    state = State(shop.tables)
    toolbox = Toolbox(tools_of(state))
    for call in actions:
        await toolbox.use(call)
    return state


class Retail(Conversation):
    """One call."""

    def __init__(self, shop: Shop, task: Task, customer: Customer, told: bool) -> None:
        self._shop = shop
        self._task = task
        self._customer = customer
        self._told = told
        self._state = State(shop.tables)
        self._talk: list[Message] = [{"role": "user", "content": GREETING}]  # as the customer sees it
        super().__init__(tools=tools_of(self._state))

    async def opening(self) -> list[Message]:
        said = await self._customer.say(self._talk)
        self._talk.append({"role": "assistant", "content": said})
        return [{"role": "system", "content": self._shop.policy}, {"role": "user", "content": said}]

    async def answer(self, said: Said) -> Next:
        if said.calls and said.calls[0].name == TRANSFER_TOOL:
            return await self._judged("transferred")
        return await super().answer(Said(said.text, said.calls[:1]))  # at most one call at a time, says the policy

    async def reply(self, said: Said) -> Next:
        self._talk.append({"role": "user", "content": said.text})
        answer = await self._customer.say(self._talk)
        if any(mark in answer for mark in OVER):
            return await self._judged("done")
        self._talk.append({"role": "assistant", "content": answer})
        return Answer([{"role": "user", "content": answer}])

    async def _judged(self, outcome: str) -> End:
        wanted = await replayed(self._shop, self._task.actions)
        right = self._state.same_as(wanted) and (not self._told or self._all_told())
        return End(1.0, f"{outcome}, right") if right else End(0.0, f"{outcome}, wrong")

    def _all_told(self) -> bool:
        """Has the agent said everything that the task lists? Commas in numbers do not count."""
        spoken = [_plain(one["content"]) for one in self._talk[1:] if one["role"] == "user"]
        return all(any(_plain(wanted) in text for text in spoken) for wanted in self._task.told)


def _plain(text: str) -> str:
    return text.lower().replace(",", "")


@dataclass(frozen=True)
class RetailTasks:
    """Calls of the published tasks: those of the train split to learn from, those of the test split to measure by."""

    shop: Shop
    chat: Chat
    limits: Limits
    cast: Cast
    told: bool
    left_out: dict[SplitName, list[Task]] = field(default_factory=dict)  # an agent that does nothing solves them
    customers: dict[tuple[SplitName, int], Customer] = field(default_factory=dict)  # who has been met already

    def train(self, index: int) -> Environment:
        return self._call("train", index)

    def held_out(self, index: int) -> Environment:
        return self._call("test", index)

    def kept(self, split: SplitName) -> list[Task]:
        gone = {task.id for task in self.left_out.get(split, [])}
        return [task for task in self.shop.tasks[split] if task.id not in gone]

    def _call(self, split: SplitName, index: int) -> Environment:
        tasks = self.kept(split)
        task = tasks[index % len(tasks)]
        customer = self.customers.setdefault((split, index), Consistent(self.cast(task, index)))
        return ChatEnvironment(Retail(self.shop, task, customer, self.told), self.chat, self.limits)


async def solved_by_nothing(shop: Shop, told: bool) -> dict[SplitName, list[Task]]:
    """The tasks of each split that leave the database as it is, and ask for nothing to be told."""
    untouched = State(shop.tables)
    return {
        split: [
            task
            for task in shop.tasks[split]
            if (await replayed(shop, task.actions)).same_as(untouched) and not (told and task.told)
        ]
        for split in SPLITS
    }
