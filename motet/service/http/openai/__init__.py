"""OpenAI's API over the same engine: `model` names an adapter in service, a checkpoint, or the base model."""
