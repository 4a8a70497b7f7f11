// The inner loop of a base product: a tile of rows times packed panels of weights.
//
// A panel holds 32 columns: float32 as [k][32], bfloat16 as [k/2][32][2], so that one 32-bit word has the
// even k in its lower and the odd k in its upper half. Rows of input come as [k][rows] (or [k/2][rows][2]).
#pragma once

#include "common.h"

enum Kind { FP32 = 0, BF16_FMA = 1, BF16_DOT = 2 };

// Fewer rows take more panels at once: it is memory they wait for then.
constexpr int panels_at_once(int rows) { return rows == 1 ? 4 : rows <= MAX_ROWS / 2 ? 2 : 1; }

// out[panels][rows][32] = (out if `add`) + x * panels that lie `next` bytes apart; `panels` is 1 or panels_at_once.
typedef void (*PanelTile)(const void *x, const char *w, size_t next, int64_t steps, bool add, float *out);
PanelTile panel_tile_for(Kind kind, int rows, int panels);
