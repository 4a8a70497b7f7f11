// How fast the inner loops run on this machine.
#include <algorithm>
#include <chrono>

#include "tiles.h"

// GFLOP/s of one core, the best of several short runs; 0 for a loop that this CPU lacks.
extern "C" double motet_probe(int kind) {
#ifndef MOTET_DOT
    if (kind == BF16_DOT) return 0;
#endif
    constexpr int K = 256;
    static thread_local Scratch x_scratch, w_scratch;
    float *x = x_scratch.get<float>(K * MAX_ROWS), out[MAX_ROWS * WIDE];
    char *w = w_scratch.get<char>(K * WIDE * 4);
    PanelTile tile = panel_tile_for((Kind)kind, MAX_ROWS, 1);
    double best = 0;
    for (int run = 0; run < 12; run++) {
        auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < 100; i++) tile(x, w, 0, kind == FP32 ? K : K / 2, false, out);
        std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        best = std::max(best, 100.0 * 2 * K * MAX_ROWS * WIDE / seconds.count() * 1e-9);
    }
    return best;
}
