// Rows that a workgroup takes in turns. A driver may run a loop's body once more after all threads have left the loop, and
// execute its uniform loads (lavapipe of Mesa 26 does). So a row that is used as an index must be valid even there.
uint row_at(uint row) { return min(row, n_rows() - 1u); }
