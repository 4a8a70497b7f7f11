"""Tools that change orders and profiles, within the policy's bounds. Whatever cannot be done changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from motet.lab.envs.tau_bench.data import Record
from motet.lab.envs.tau_bench.state import State
from motet.lab.envs.tools import ToolError

Reason = Literal["no longer needed", "ordered by mistake"]


@dataclass(frozen=True)
class Exchange:
    """Items of an order against other variants of the same products."""

    old: list[Record]  # as they stand in the order
    new: list[Record]  # variants
    difference: float  # to pay; below 0 it is given back


class WritingTools:
    """What an agent may do."""

    def __init__(self, state: State) -> None:
        self.state = state

    def cancel_pending_order(self, order_id: str, reason: Reason) -> Record:
        """Cancel a pending order; what was paid is given back the way it came. Explain it and get a yes before."""
        self._in_status(order_id, "pending", "cancelled")
        order = self.state.change("orders", order_id)
        refunds = [_transaction("refund", one["amount"], one["payment_method_id"]) for one in order["payment_history"]]
        for one in refunds:
            self._move(order["user_id"], one["payment_method_id"], one["amount"])
        order["status"], order["cancel_reason"] = "cancelled", reason
        order["payment_history"] = [*order["payment_history"], *refunds]
        return order

    def return_delivered_order_items(self, order_id: str, item_ids: list[str], payment_method_id: str) -> Record:
        """Return items of a delivered order, once an order. Explain it and get a yes before."""
        looked = self._in_status(order_id, "delivered", "returned")
        method = self._method(looked["user_id"], payment_method_id)
        if method["source"] != "gift_card" and payment_method_id != looked["payment_history"][0]["payment_method_id"]:
            raise ToolError("Payment method should be the original payment method or a gift card")
        _items(looked, item_ids)
        order = self.state.change("orders", order_id)
        order["status"], order["return_items"] = "return requested", sorted(item_ids)
        order["return_payment_method_id"] = payment_method_id
        return order

    def exchange_delivered_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> Record:
        """Exchange items of a delivered order for other variants of the same products, once an order.

        new_item_ids stand in the order of item_ids. Explain it and get a yes before.
        """
        looked = self._in_status(order_id, "delivered", "exchanged")
        exchange = self._exchange(looked, item_ids, new_item_ids)
        self._can_pay(looked["user_id"], payment_method_id, exchange.difference)
        order = self.state.change("orders", order_id)
        order["status"] = "exchange requested"
        order["exchange_items"], order["exchange_new_items"] = sorted(item_ids), sorted(new_item_ids)
        order["exchange_payment_method_id"] = payment_method_id
        order["exchange_price_difference"] = exchange.difference
        return order

    def modify_pending_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> Record:
        """Change items of a pending order into other variants of the same products, once an order.

        new_item_ids stand in the order of item_ids. Explain it and get a yes before.
        """
        looked = self._in_status(order_id, "pending", "modified")
        if any(old == new for old, new in zip(item_ids, new_item_ids, strict=False)):
            raise ToolError("The new item id should be different from the old item id")
        exchange = self._exchange(looked, item_ids, new_item_ids)
        self._can_pay(looked["user_id"], payment_method_id, exchange.difference)
        order = self.state.change("orders", order_id)
        kind = "payment" if exchange.difference > 0 else "refund"
        payment = _transaction(kind, abs(exchange.difference), payment_method_id)
        order["payment_history"] = [*order["payment_history"], payment]
        self._move(order["user_id"], payment_method_id, -exchange.difference)
        for old, new in zip(_items(order, item_ids), exchange.new, strict=True):
            old.update(item_id=new["item_id"], price=new["price"], options=new["options"])
        order["status"] = "pending (item modified)"
        return order

    def modify_pending_order_payment(self, order_id: str, payment_method_id: str) -> Record:
        """Pay a pending order by another payment method. Explain it and get a yes before."""
        looked = self._pending(order_id)
        history = looked["payment_history"]
        if len(history) != 1 or history[0]["transaction_type"] != "payment":
            raise ToolError("There should be exactly one payment for a pending order")
        paid = history[0]
        if paid["payment_method_id"] == payment_method_id:
            raise ToolError("The new payment method should be different from the current one")
        self._can_pay(looked["user_id"], payment_method_id, paid["amount"])
        order = self.state.change("orders", order_id)
        moved = [("payment", payment_method_id, -1), ("refund", paid["payment_method_id"], 1)]
        for kind, method, sign in moved:
            order["payment_history"] = [*order["payment_history"], _transaction(kind, paid["amount"], method)]
            self._move(order["user_id"], method, sign * paid["amount"])
        return order

    def modify_pending_order_address(
        self, order_id: str, address1: str, address2: str, city: str, state: str, country: str, zip: str
    ) -> Record:
        """Send a pending order to another address. Explain it and get a yes before."""
        self._pending(order_id)
        order = self.state.change("orders", order_id)
        order["address"] = _address(address1, address2, city, state, country, zip)
        return order

    def modify_user_address(
        self, user_id: str, address1: str, address2: str, city: str, state: str, country: str, zip: str
    ) -> Record:
        """Change a user's default address. Explain it and get a yes before."""
        user = self.state.change("users", user_id)
        user["address"] = _address(address1, address2, city, state, country, zip)
        return user

    # -- what several of them ask -------------------------------------------------------------------------------

    def _in_status(self, order_id: str, status: str, done: str) -> Record:
        order = self.state.look("orders", order_id)
        if order["status"] != status:
            raise ToolError(f"Non-{status} order cannot be {done}")
        return order

    def _pending(self, order_id: str) -> Record:
        order = self.state.look("orders", order_id)
        if "pending" not in order["status"]:
            raise ToolError("Non-pending order cannot be modified")
        return order

    def _method(self, user_id: str, method_id: str) -> Record:
        methods: dict[str, Record] = self.state.look("users", user_id)["payment_methods"]
        if method_id not in methods:
            raise ToolError("Payment method not found")
        return methods[method_id]

    def _can_pay(self, user_id: str, method_id: str, amount: float) -> None:
        method = self._method(user_id, method_id)
        if method["source"] == "gift_card" and method["balance"] < amount:
            raise ToolError("Insufficient gift card balance to pay")

    def _move(self, user_id: str, method_id: str, amount: float) -> None:
        """Money onto a gift card, or off it; other methods keep no account here."""
        if self._method(user_id, method_id)["source"] == "gift_card":
            card = self.state.change("users", user_id)["payment_methods"][method_id]
            card["balance"] = round(card["balance"] + amount, 2)

    def _exchange(self, order: Record, item_ids: Sequence[str], new_item_ids: Sequence[str]) -> Exchange:
        if len(item_ids) != len(new_item_ids):
            raise ToolError("The number of items to be exchanged should match")
        old = _items(order, item_ids)
        new = [self._variant(item["product_id"], key) for item, key in zip(old, new_item_ids, strict=True)]
        difference = sum(after["price"] - before["price"] for before, after in zip(old, new, strict=True))
        return Exchange(old, new, round(difference, 2))

    def _variant(self, product_id: str, item_id: str) -> Record:
        variants: dict[str, Record] = self.state.look("products", product_id)["variants"]
        if item_id not in variants or not variants[item_id]["available"]:
            raise ToolError(f"New item {item_id} not found or available")
        return variants[item_id]


def _items(order: Record, item_ids: Sequence[str]) -> list[Record]:
    """The order's items of these ids, one for each; several of one id are told apart. ToolError."""
    left: list[Record] = list(order["items"])
    found = []
    for item_id, count in Counter(item_ids).items():
        if sum(item["item_id"] == item_id for item in left) < count:
            raise ToolError(f"Number of {item_id} not found")
    for item_id in item_ids:
        place = next(place for place, item in enumerate(left) if item["item_id"] == item_id)
        found.append(left.pop(place))
    return found


def _transaction(kind: str, amount: float, method_id: str) -> Record:
    return {"transaction_type": kind, "amount": amount, "payment_method_id": method_id}


def _address(address1: str, address2: str, city: str, state: str, country: str, zip: str) -> Record:
    told = {"address1": address1, "address2": address2, "city": city, "country": country}
    return {**told, "state": state, "zip": zip}
