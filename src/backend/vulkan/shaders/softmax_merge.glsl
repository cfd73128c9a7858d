// How attention merges what it made of pages. A page's softmax starts from nothing, and pages are merged in their order: so
// a row has the same bits whatever else the step computes, and whether pages are merged as they come or later.

// Of a query: the largest score so far, and the sum of what its cells weigh.
struct Softmax {
  float top, sum;
};
// By what the sums so far and a page's are multiplied when the page is merged.
vec2 merge_factors(Softmax all, float page_top) {
  const float top = max(all.top, page_top);
  return vec2(exp(all.top - top), exp(page_top - top));
}
Softmax merged(Softmax all, Softmax page, vec2 factors) {
  return Softmax(max(all.top, page.top), fma(all.sum, factors.x, page.sum * factors.y));
}
float merged_value(float all, float page, vec2 factors) { return fma(all, factors.x, page * factors.y); }

// What a query's values are divided by, with the sink of its head where it has one.
float whole_sum(Softmax all, float sink, bool has_sink) {
  return has_sink && all.sum > 0.0 ? all.sum + exp(sink - all.top) : all.sum;
}
float divided(float value, float sum) { return sum > 0.0 ? value / sum : 0.0; }
