"""Tools that only look."""

from __future__ import annotations

from collections.abc import Callable

from motet.lab.envs.calculator import BadExpression, evaluate
from motet.lab.envs.tau_bench.data import Record
from motet.lab.envs.tau_bench.state import State
from motet.lab.envs.tools import ToolError


class ReadingTools:
    """What an agent may find out."""

    def __init__(self, state: State) -> None:
        self.state = state

    def find_user_id_by_email(self, email: str) -> str:
        """Find a user's id by their email address."""
        return self._find(lambda user: bool(user["email"].lower() == email.lower()))

    def find_user_id_by_name_zip(self, first_name: str, last_name: str, zip: str) -> str:
        """Find a user's id by first name, last name and zip code, where the email address is not known or not found."""
        name = (first_name.lower(), last_name.lower())

        def fits(user: Record) -> bool:
            own = (user["name"]["first_name"].lower(), user["name"]["last_name"].lower())
            return own == name and bool(user["address"]["zip"] == zip)

        return self._find(fits)

    def get_user_details(self, user_id: str) -> Record:
        """Get a user's profile: name, address, email, payment methods and orders."""
        return self.state.look("users", user_id)

    def get_order_details(self, order_id: str) -> Record:
        """Get the status and details of an order. Its id begins with '#', such as '#W0000000'."""
        return self.state.look("orders", order_id)

    def get_product_details(self, product_id: str) -> Record:
        """Get the variants of a product, with their options, prices and availability. This is not an item's id."""
        return self.state.look("products", product_id)

    def get_item_details(self, item_id: str) -> Record:
        """Get one variant item, with its options, price and availability. This is not a product's id."""
        for product_id in self.state.keys("products"):
            variants: dict[str, Record] = self.state.look("products", product_id)["variants"]
            if item_id in variants:
                return variants[item_id]
        raise ToolError("Item not found")

    def list_all_product_types(self) -> dict[str, str]:
        """List the name and the product id of every type of product; there are 50."""
        products = [self.state.look("products", key) for key in self.state.keys("products")]
        return {one["name"]: one["product_id"] for one in sorted(products, key=lambda one: str(one["name"]))}

    def calculate(self, expression: str) -> str:
        """Calculate an expression of numbers, + - * / and parentheses."""
        try:
            return str(round(float(evaluate(expression)), 2))
        except BadExpression as error:
            raise ToolError(str(error)) from None

    def transfer_to_human_agents(self, summary: str) -> str:
        """Transfer the user to a human agent, with a summary of the issue; only where nothing else can be done."""
        return "Transfer successful"

    def _find(self, fits: Callable[[Record], bool]) -> str:
        for user_id in self.state.keys("users"):
            if fits(self.state.look("users", user_id)):
                return user_id
        raise ToolError("User not found")
