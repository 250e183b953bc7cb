// Marks what libraggeddnn.so exports; everything else is hidden.
#pragma once

#define RAGGEDDNN_API __attribute__((visibility("default")))
