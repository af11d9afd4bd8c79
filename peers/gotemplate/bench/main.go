package main

import (
	"fmt"

	"github.com/stolostron/go-template-utils/v7/pkg/templates"
)

func main() { fmt.Println(templates.HasTemplate([]byte("{{"), "{{", false)) }
