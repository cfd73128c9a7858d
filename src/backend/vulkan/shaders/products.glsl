// In which order products add a row's columns, whatever kernel does it: blocks of 32 columns are dealt to lanes in turns, a
// lane adds its blocks in order, then the lanes are added in order. Few rows have a thread for each lane, tiles of many
// rows walk one lane behind another: the bits are the same.
const uint kLanes = 16, kBlockColumns = 32;
uint n_blocks() { return (param(1) + kBlockColumns - 1u) / kBlockColumns; }

uint64_t weight_row(uint expert, uint o) {
  return address(0) + (uint64_t(min(expert, param(13) - 1u)) * param(0) + min(o, param(0) - 1u)) * param(2);
}

// Output o of a row, of which y is the product. Tensor 7, where param 6 says so: rows that the product is added to.
float output_value(uint row, uint o, float y) {
  if (param(3) != 0u) y += floats(2).f[o];
  if (param(6) != 0u) y += Floats(address(7) + uint64_t(row) * param(0) * 4u).f[o];
  return y;
}
uint64_t output_row(uint row) { return address(4) + uint64_t(row) * param(0) * 4u; }
void store_output(uint row, uint o, float y) {
  if (o < param(0)) Floats(output_row(row)).f[o] = output_value(row, o, y);
}
