// Rows that a workgroup takes in turns. A driver may go once through a loop's body when all threads have left the loop, and then
// load what they would load alike (lavapipe of Mesa 26 does): a row by which something else is found must be one even there.
uint row_at(uint row) { return min(row, n_rows() - 1u); }
