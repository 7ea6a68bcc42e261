// Lending device memory to cuGraph: see borrowed_graph.cpp.
#pragma once

#include <cugraph_c/graph.h>
#include <cugraph_c/types.h>

#include <cstdint>

namespace dynstore {

// One orientation of a graph as packed compressed rows, in device memory that outlives the graph made of it.
struct csr_t {
  std::uintptr_t offsets;                // number_of_vertices + 1 of vertex_type
  std::uintptr_t indices;                // number_of_edges of vertex_type, ascending in each row
  std::uintptr_t weights;                // number_of_edges of weight_type; not read unless is_weighted
  std::uintptr_t number_map;             // number_of_vertices of vertex_type: row -> the id that results show
  std::int64_t number_of_vertices;
  std::int64_t number_of_edges;
  cugraph_data_type_id_t vertex_type;    // INT32 or INT64
  cugraph_data_type_id_t weight_type;    // FLOAT32 or FLOAT64: of the weights, else of what algorithms compute with
  bool is_weighted;
  bool is_symmetric;                     // every edge stands in both rows
  bool is_transposed;                    // rows are destinations
  std::int64_t end_of_wide;              // rows before it are mostly of degree 1024 and more; -1: no order by degree
  std::int64_t end_of_medium;            // rows before it are mostly of degree 32 and more
};

// Make a graph of the C API over the memory, without a copy. To be freed by cugraph_graph_free, which leaves the
// memory alone. Throws std::invalid_argument.
cugraph_graph_t* lend_graph(csr_t const& csr);

}  // namespace dynstore
