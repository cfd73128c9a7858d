// Functions of pictures.
#include "calls.h"

namespace weft::torch {

std::map<std::string, Make> window_functions() {
  return {
      {"conv2d",
       [](const Call& c) {
         return conv2d(c.in.at(0), c.in.at(1), optional(c.in, 2),
                       {.stride = sides(c.p, "stride"),
                        .padding = sides(c.p, "padding"),
                        .dilation = sides(c.p, "dilation"),
                        .groups = wide(c.p, "groups")});
       }},
      {"conv_transpose2d",
       [](const Call& c) {
         return conv_transpose2d(c.in.at(0), c.in.at(1), optional(c.in, 2),
                                 {.stride = sides(c.p, "stride"),
                                  .padding = sides(c.p, "padding"),
                                  .output_padding = sides(c.p, "output_padding"),
                                  .dilation = sides(c.p, "dilation"),
                                  .groups = wide(c.p, "groups")});
       }},
      {"conv1d_signals",
       [](const Call& c) {
         return conv1d(c.in.at(0), c.in.at(1), optional(c.in, 2),
                       {.stride = wide(c.p, "stride"),
                        .padding = wide(c.p, "padding"),
                        .dilation = wide(c.p, "dilation"),
                        .groups = wide(c.p, "groups")});
       }},
      {"conv_transpose1d",
       [](const Call& c) {
         return conv_transpose1d(c.in.at(0), c.in.at(1), optional(c.in, 2),
                                 {.stride = wide(c.p, "stride"),
                                  .padding = wide(c.p, "padding"),
                                  .output_padding = wide(c.p, "output_padding"),
                                  .dilation = wide(c.p, "dilation"),
                                  .groups = wide(c.p, "groups")});
       }},
      {"max_pool2d",
       [](const Call& c) {
         return max_pool2d(c.in.at(0), sides(c.p, "kernel"), sides(c.p, "stride"), sides(c.p, "padding"));
       }},
      {"avg_pool2d",
       [](const Call& c) {
         return avg_pool2d(c.in.at(0), sides(c.p, "kernel"), sides(c.p, "stride"), sides(c.p, "padding"),
                           flag(c.p, "count_padding"));
       }},
      {"resize_nearest",
       [](const Call& c) {
         const HeightWidth size = sides(c.p, "size");
         return resize_nearest(c.in.at(0), size.h, size.w);
       }},
      {"resize_bilinear",
       [](const Call& c) {
         const HeightWidth size = sides(c.p, "size");
         return resize_bilinear(c.in.at(0), size.h, size.w, flag(c.p, "align_corners"));
       }},
      {"upsample_nearest", [](const Call& c) { return upsample_nearest(c.in.at(0), sides(c.p, "scale")); }},
      {"upsample_bilinear",
       [](const Call& c) {
         return upsample_bilinear(c.in.at(0), sides(c.p, "scale"), flag(c.p, "align_corners"));
       }},
      {"batch_norm",
       [](const Call& c) {
         return batch_norm(c.in.at(0), c.in.at(1), c.in.at(2), optional(c.in, 3), optional(c.in, 4),
                           number(c.p, "eps"));
       }},
      {"group_norm",
       [](const Call& c) {
         return group_norm(c.in.at(0), wide(c.p, "groups"), optional(c.in, 1), optional(c.in, 2),
                           number(c.p, "eps"));
       }},
  };
}

}  // namespace weft::torch
