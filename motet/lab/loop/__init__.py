"""The closed loop: what people say of a name's answers becomes its next version, if it is better. docs/loop.md."""
