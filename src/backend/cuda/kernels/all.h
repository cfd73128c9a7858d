#pragma once
#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/general.h"
#include "backend/cuda/kernels/products.h"
#include "backend/cuda/kernels/recurrent.h"
#include "backend/cuda/kernels/rows.h"
