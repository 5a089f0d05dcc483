@rem The second program of 0.1.0. loopgrid-mcp.exe lies beside this file.
@"%~dp0loopgrid-mcp.exe" doctor %*
