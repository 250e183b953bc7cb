#include "raggeddnn/backend/c_api/descriptor.hpp"

#include <algorithm>

namespace raggeddnn::c_api {

void Input::expect_count(int64_t least, int64_t most) const {
    if (count >= least && count <= most) return;
    if (least == most) bad_param(row.label, " got ", count, " elements, expected ", least);
    bad_param(row.label, " got ", count, " elements, expected ", least, " to ", most);
}

std::string Input::text() const {
    expect_count(0, MAX_ELEMENTS);
    std::string value(static_cast<const char*>(data), static_cast<size_t>(count));
    while (!value.empty() && value.back() == '\0') value.pop_back();
    return value;
}

std::vector<DescriptorPtr> Input::descriptors(int64_t most) const {
    std::vector<DescriptorPtr> found;
    for (const hipdnnBackendDescriptor_t reference : many<hipdnnBackendDescriptor_t>(most)) {
        found.push_back(resolve(reference, row.label));
        if (!found.back()->is_final()) {
            refuse(HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED, row.label, " got a ",
                   found.back()->kind(), " descriptor that is not final, expected a final one");
        }
    }
    return found;
}

void Output::answer(size_t elements) const {
    *not_null(count, "element_count") = static_cast<int64_t>(elements);
}

void Output::put_none() const {
    if (count) *count = 0;
}

void Output::put_text(const std::string& text) const {
    const size_t size = text.size() + 1;
    if (is_question()) return answer(size);
    const size_t copied = std::min(size, static_cast<size_t>(requested));
    std::memcpy(data, text.c_str(), copied);
    static_cast<char*>(data)[copied - 1] = '\0';
    if (count) *count = static_cast<int64_t>(copied);
}

void Output::put_descriptors(const std::vector<DescriptorPtr>& descriptors) const {
    if (is_question()) return answer(descriptors.size());
    if (static_cast<size_t>(requested) < descriptors.size()) {
        bad_param(row.label, " has ", descriptors.size(), " elements, got room for ", requested);
    }
    auto* references = static_cast<hipdnnBackendDescriptor_t*>(data);
    for (size_t i = 0; i < descriptors.size(); ++i) references[i] = new_reference(descriptors[i]);
    if (count) *count = static_cast<int64_t>(descriptors.size());
}

const Attribute& Descriptor::row(hipdnnBackendAttributeName_t name) const {
    for (const Attribute& row : rows_) {
        if (row.name == name) return row;
    }
    refuse(HIPDNN_STATUS_NOT_SUPPORTED, "a ", kind(), " descriptor has no attribute ",
           static_cast<int>(name));
}

void Descriptor::check_type(const Attribute& row, hipdnnBackendAttributeType_t type) const {
    if (row.has_any_type || row.type == type) return;
    bad_param(kind(), ": ", row.label, " got attribute type ", static_cast<int>(type), " (",
              attribute_type_name(type), "), expected ", static_cast<int>(row.type), " (",
              attribute_type_name(row.type), ")");
}

void Descriptor::set(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type,
                     int64_t count, const void* elements) {
    if (is_final_) {
        refuse(HIPDNN_STATUS_NOT_INITIALIZED, kind(), ": attribute ", static_cast<int>(name),
               " set after the descriptor was finalized, expected before");
    }
    const Attribute& attribute = row(name);
    if (!attribute.set) {
        refuse(HIPDNN_STATUS_NOT_SUPPORTED, kind(), ": ", attribute.label, " is read-only");
    }
    check_type(attribute, type);
    not_null(elements, attribute.label);
    if (count < 0) bad_param(attribute.label, " got ", count, " elements, expected 0 or more");
    before_set(attribute);
    attribute.set(*this, {attribute, type, count, elements});
    set_names_.insert(name);
    after_set(attribute);
}

void Descriptor::get(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type,
                     int64_t requested, int64_t* count, void* elements) const {
    const hipdnnStatus_t unfinalized = unfinalized_status();
    if (!is_final_ && unfinalized != HIPDNN_STATUS_SUCCESS) {
        refuse(unfinalized, kind(), ": attribute ", static_cast<int>(name),
               " read before the descriptor was finalized, expected after");
    }
    const Attribute& attribute = row(name);
    if (!attribute.get) {
        refuse(HIPDNN_STATUS_NOT_SUPPORTED, kind(), ": ", attribute.label, " cannot be read");
    }
    check_type(attribute, type);
    if (requested < 0) {
        bad_param(attribute.label, ": ", requested, " elements requested, expected 0 or more");
    }
    attribute.get(*this, {attribute, type, requested, count, elements});
}

void Descriptor::finalize() {
    if (is_final_) bad_param("the ", kind(), " descriptor is final already, expected once");
    for (const Attribute& attribute : rows_) {
        if (attribute.need == Need::REQUIRED && !was_set(attribute.name)) {
            bad_param(kind(), ": ", attribute.label, " is not set, expected before finalization");
        }
    }
    on_finalize();
    mark_final();
}

const char* attribute_type_name(hipdnnBackendAttributeType_t type) {
    switch (static_cast<int>(type)) {
        case HIPDNN_TYPE_HANDLE: return "HANDLE";
        case HIPDNN_TYPE_DATA_TYPE: return "DATA_TYPE";
        case HIPDNN_TYPE_BOOLEAN: return "BOOLEAN";
        case HIPDNN_TYPE_INT64: return "INT64";
        case HIPDNN_TYPE_FLOAT: return "FLOAT";
        case HIPDNN_TYPE_DOUBLE: return "DOUBLE";
        case HIPDNN_TYPE_VOID_PTR: return "VOID_PTR";
        case HIPDNN_TYPE_HEUR_MODE: return "HEUR_MODE";
        case HIPDNN_TYPE_BACKEND_DESCRIPTOR: return "BACKEND_DESCRIPTOR";
        case HIPDNN_TYPE_BEHAVIOR_NOTE: return "BEHAVIOR_NOTE";
        case HIPDNN_TYPE_INT32: return "INT32";
        case HIPDNN_TYPE_CHAR: return "CHAR";
        case HIPDNN_TYPE_NORM_FWD_PHASE: return "NORM_FWD_PHASE";
        case HIPDNN_TYPE_POINTWISE_MODE: return "POINTWISE_MODE";
        case HIPDNN_TYPE_DIAGONAL_ALIGNMENT: return "DIAGONAL_ALIGNMENT";
        case HIPDNN_TYPE_ATTENTION_IMPLEMENTATION: return "ATTENTION_IMPLEMENTATION";
        case HIPDNN_TYPE_REDUCTION_MODE: return "REDUCTION_MODE";
        case HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT: return "FLATBUFFER_DATA_STRUCT_EXT";
        case HIPDNN_TYPE_OPERATION_TYPE_EXT: return "OPERATION_TYPE_EXT";
        default: return "a type that no attribute has";
    }
}

}  // namespace raggeddnn::c_api
