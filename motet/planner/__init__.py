"""What N experiments at once will take, before they are admitted: from numbers alone, without an engine."""
