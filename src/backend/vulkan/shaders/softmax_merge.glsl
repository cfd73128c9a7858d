// Merges the results of pages of attention. The softmax of each page is computed alone, and pages are merged in their order.
// So a row has the same bits in any step, and also if pages are merged later.

// For a query: the largest score so far, and the sum of the weights of its cells.
struct Softmax {
  float top, sum;
};
// The factors of the sums so far and of a page's sums when the page is merged.
vec2 merge_factors(Softmax all, float page_top) {
  const float top = max(all.top, page_top);
  return vec2(exp(all.top - top), exp(page_top - top));
}
Softmax merged(Softmax all, Softmax page, vec2 factors) {
  return Softmax(max(all.top, page.top), fma(all.sum, factors.x, page.sum * factors.y));
}
float merged_value(float all, float page, vec2 factors) { return fma(all, factors.x, page * factors.y); }

// The divisor of a query's values, including the sink of its head, if it has one.
float whole_sum(Softmax all, float sink, bool has_sink) {
  return has_sink && all.sum > 0.0 ? all.sum + exp(sink - all.top) : all.sum;
}
float divided(float value, float sum) { return sum > 0.0 ? value / sum : 0.0; }
