"""All kinds, by name."""

from motet.service.http.jobs import external, loading, refusing, sampling, training, weights

ROOMS = (training, weights, external, loading, sampling, refusing)
KINDS = {kind.name: kind for room in ROOMS for kind in room.KINDS}
