// Blocks of activations as quantise.comp makes them.
const uint kBlock = 32;      // Columns.
const uint kBlockWords = 9;  // Codes, and a scale.
