// Products of many rows: a workgroup makes a tile of kTileOutputs by kTileRows, a thread 8 by 4 of them, from blocks of 32
// columns of both sides that wait in shared memory. Workgroups beside each other have the same weights.
layout(constant_id = 0) const uint kType = 0;
layout(constant_id = 1) const uint kTileOutputs = 128;
layout(constant_id = 2) const uint kTileRows = 64;
layout(constant_id = 4) const uint kSorted = 0;  // Rows come sorted by expert (sort_experts.comp).
layout(local_size_x_id = 3) in;
const uint kThreads = kTileOutputs * kTileRows / 32, kAcross = kTileOutputs / 8, kDown = kTileRows / 4;
shared uint x_rows[kTileRows];
shared uint out_rows[kTileRows];  // kNowhere past the end.
const uint kNowhere = 0xffffffffu;

uint across() { return gl_LocalInvocationID.x % kAcross; }
uint down() { return gl_LocalInvocationID.x / kAcross; }
uint tile_output(uint i) { return gl_WorkGroupID.y * kTileOutputs + i; }

// Fetches which rows tile `i` has; false where there is none. Tensors 5 and 6: pairs sorted by expert, tiles of them.
bool find_rows(uint i, out uint expert) {
  expert = 0u;
  uint begin = i * kTileRows, count = kTileRows;
  if (kSorted != 0u) {
    Codes tiles = Codes(address(6));
    if (i >= tiles.c[0].x) return false;
    expert = tiles.c[1u + i].x;
    begin = tiles.c[1u + i].y;
    count = tiles.c[1u + i].z;
  } else {
    if (begin >= n_rows()) return false;
    count = min(count, n_rows() - begin);
  }
  barrier();
  for (uint r = gl_LocalInvocationID.x; r < kTileRows; r += kThreads) {
    const uint at = min(begin + min(r, count - 1u), n_rows() - 1u);
    const uint row = kSorted != 0u ? min(uint(ints(5).i[at]), n_rows() - 1u) : at;
    x_rows[r] = kSorted != 0u && param(5) == 0u ? row / param(4) : row;
    out_rows[r] = r < count ? row : kNowhere;
  }
  barrier();
  return true;
}

void store_tile(float totals[32]) {
  for (uint r = 0; r < 4u; ++r) {
    const uint row = out_rows[down() + r * kDown];
    if (row == kNowhere) continue;
    for (uint o = 0; o < 8u; ++o) store_output(row, tile_output(across() + o * kAcross), totals[o * 4u + r]);
  }
}
