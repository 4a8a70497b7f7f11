"""All kinds, by name."""

from motet.service.http.jobs import loading, sampling, training, weights

KINDS = {kind.name: kind for kind in (*training.KINDS, *weights.KINDS, *loading.KINDS, *sampling.KINDS)}
