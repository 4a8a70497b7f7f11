"""All kinds, by name."""

from motet.service.http.jobs import external, loading, sampling, training, weights

ROOMS = (training, weights, external, loading, sampling)
KINDS = {kind.name: kind for room in ROOMS for kind in room.KINDS}
